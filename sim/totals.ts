import type { App } from "../src/app.ts";
import type { Window } from "../src/core/window.ts";
import type { ModelEvent } from "./events.ts";
import type { Violation } from "./findings.ts";
import type { History } from "./history.ts";
import { covers, isShownTo, type LedgerFacts, type Whereabouts } from "./ledger.ts";
import { DAY_MS, type Plan, sourceId } from "./plan.ts";

const EVERYTHING = { search: "", problems: false, sort: "name" as const, offset: 0, limit: 1000 };

/** The two counts that a person sees. */
interface Shown {
  readonly apiCount: number | null;
  readonly heldCount: number | null;
}

/**
 * The counts that people see, in sum, by day and by source, are those of different events: one that a portal and an
 * organization show counts for each of them, and once in the sum.
 */
export async function judgeTotals(
  plan: Plan,
  history: History,
  app: App,
  { windows }: LedgerFacts,
  { isHeld, isKnown, isWaiting }: Whereabouts,
): Promise<Violation[]> {
  const found: Violation[] = [];
  const counted = countedBySource(windows);
  const { events } = history.service;
  const countedIn = (event: ModelEvent) =>
    (counted.get(sourceId(event.organization)) ?? []).filter((window) => covers(window, event));
  const listed = events.filter((event) => countedIn(event).length > 0);
  const may = listed.filter((event) => isHeld(event) || isWaiting(event));
  // An event that is not held has no identity: it counts for each source that shows it.
  const held = listed.filter((event) => isHeld(event));
  const unheld = listed.filter((event) => !isHeld(event));
  // Where the services of an account were changed, counts of windows over the same time may be too low.
  const isExact = history.settingsSince.every(
    ({ settings: { services } }) => `${services}` === `${plan.settings.services}`,
  );
  const must = may.filter(
    (event) =>
      isExact &&
      isKnown(event) &&
      event.odd === null &&
      countedIn(event).some((window) => isSettled(window) && isShownTo(plan, window, event)),
  );

  const { totals } = await app.view.status();
  check("the totals", totals, () => true);
  for (const { day, ...shown } of (await app.view.calendar()).days)
    check(`the day ${day}`, shown, (event) => isOn(day, event));
  for (const { id, account, ...shown } of (await app.view.organizations(EVERYTHING)).rows) {
    const isOfRow = ({ organization }: ModelEvent) => sourceId(organization) === id;
    check(`the row of ${id}`, shown, isOfRow);
    const own = await app.view.windows({ account, organization: id, limit: 1 });
    for (const { day, ...counts } of own?.days ?? [])
      check(`the day ${day} of ${id}`, counts, (event) => isOfRow(event) && isOn(day, event));
  }
  return found;

  function check(name: string, { heldCount, apiCount }: Shown, isOf: (event: ModelEvent) => boolean): void {
    if (heldCount === null || apiCount === null) return;
    const count = (list: readonly ModelEvent[]) =>
      new Set(list.filter(isOf).map(({ number }) => number)).size;
    const [least, most] = [count(must), count(may)];
    const all = count(held) + unheld.filter(isOf).length;
    if (heldCount < least || heldCount > most)
      report(`${name} say that ${heldCount} are held of between ${least} and ${most}`);
    if (apiCount < least || apiCount > all)
      report(`${name} say that the service has ${apiCount} of between ${least} and ${all}`);
  }

  function report(message: string): void {
    found.push({ rule: "ledger", message });
  }
}

function isOn(day: string, { timeMs }: ModelEvent): boolean {
  return Math.floor(timeMs / DAY_MS) * DAY_MS === Date.parse(day);
}

/** Closed windows that were counted, by the source that they were read from. */
function countedBySource(windows: readonly Window[]): ReadonlyMap<string, readonly Window[]> {
  const counted = new Map<string, Window[]>();
  for (const window of windows) {
    const { live, reader, heldCount, stream } = window;
    if (live || reader !== null || heldCount === null) continue;
    for (const id of stream.provider === null ? stream.organizations : [stream.provider])
      counted.set(id, [...(counted.get(id) ?? []), window]);
  }
  return counted;
}

/** A group that was counted as a whole says nothing of its organizations. */
function isSettled({ state, counts, stream }: Window): boolean {
  return state === "sealed" && (counts !== null || stream.organizations.length === 1);
}
