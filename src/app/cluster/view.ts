import type { Clock } from "../../core/clock.ts";
import { statementOf } from "../../core/statement.ts";
import type { GapsQuery, GapsView } from "../../core/view/gaps.ts";
import type { AlarmView } from "../../core/view/status.ts";
import type { View } from "../../core/view.ts";
import {
  mergeCalendars,
  mergeDeadLetters,
  mergeDrift,
  mergeOrganizations,
  mergeRates,
  numberInAll,
  numberInLane,
} from "./merge-lists.ts";
import { addRecords, mergeSinks, mergeStatuses } from "./merge-status.ts";

/** One running lane, or without a number all lanes of another machine. */
export interface LaneView {
  readonly lane: number | undefined;
  readonly view: View;
}

export interface MachineViewOptions {
  readonly version: string;
  readonly clock: Clock;
  readonly startedMs: number;
  readonly sinkBehindMs: number;
  /** The lanes that run here now, and the other machines where the whole cluster is shown. */
  lanes(): readonly LaneView[];
  /** Alarms of the machine itself. */
  alarms(): readonly AlarmView[];
}

/** Several lanes as one view. A lane that closes while it is asked is left out of that answer. */
export function createMachineView(options: MachineViewOptions): View {
  const { clock } = options;
  let seen: { readonly token: number; readonly ends: ReadonlyMap<number | undefined, number> } = {
    token: 0,
    ends: new Map(),
  };

  async function all<Result>(
    ask: (view: View) => Promise<Result>,
  ): Promise<{ lane: number | undefined; found: Result }[]> {
    const asked = await Promise.all(
      options.lanes().map(async ({ lane, view }) => {
        try {
          return [{ lane, found: await ask(view) }];
        } catch (error) {
          if (options.lanes().some((one) => one.lane === lane && one.view === view)) throw error;
          return [];
        }
      }),
    );
    return asked.flat();
  }
  const found = async <Result>(ask: (view: View) => Promise<Result>) =>
    (await all(ask)).map((one) => one.found);

  const view: View = {
    async status() {
      const statuses = await found((one) => one.status());
      const merged = mergeStatuses(statuses);
      const alarms = [...options.alarms(), ...statuses.flatMap((one) => one.alarms)];
      const statement = statementOf({
        startedMs: options.startedMs,
        alarms,
        accounts: merged.accounts,
        sinks: await view.sinks(),
        gaps: merged.totals.gaps,
        unreadWindows: merged.totals.windows.unread,
        sinkBehindMs: options.sinkBehindMs,
      });
      return {
        version: options.version,
        shard: null,
        nowMs: clock.now(),
        startedMs: options.startedMs,
        ...(statuses.length === 0 && statement.health === "good" ? NO_LANES : statement),
        alarms,
        ...merged,
      };
    },
    rates: () =>
      mergeRates(
        options.lanes().map((one) => one.view.rates()),
        { bucketMs: 5000, fromMs: clock.now(), received: [], live: [], sent: {} },
      ),
    async organizations(query) {
      const whole = { ...query, offset: 0, limit: query.offset + query.limit };
      return mergeOrganizations(await found((one) => one.organizations(whole)), query);
    },
    calendar: async () => mergeCalendars(await found((one) => one.calendar()), clock.now()),
    async windows(query) {
      return (await found((one) => one.windows(query))).find((one) => one !== undefined);
    },
    gaps: async (query) => mergeGaps(await found((one) => one.gaps(query)), query),
    sinks: async () => mergeSinks((await found((one) => one.sinks())).flat()),
    archives: async () => (await found((one) => one.archives())).flat(),
    async deadLetters(query) {
      const { before: _, ...rest } = query;
      const lists = await all((one) => one.deadLetters(rest));
      return mergeDeadLetters(
        lists.map(({ lane, found: letters }) => ({ lane, view: letters })),
        query,
      );
    },
    async deadLetter(number) {
      const { lane, id } = numberInLane(number);
      const own = options.lanes().find((one) => one.lane === lane);
      const letter = await own?.view.deadLetter(id);
      if (letter !== undefined) return { ...letter, id: numberInAll(lane, letter.id) };
      const others = options.lanes().filter((one) => one.lane === undefined);
      const found = await Promise.all(
        others.map((one) => one.view.deadLetter(number).catch(() => undefined)),
      );
      return found.find((one) => one !== undefined);
    },
    drift: async (limit) => mergeDrift(await found((one) => one.drift(limit)), limit),
    async recent(afterPage, limit) {
      const before = afterPage === seen.token ? seen.ends : new Map<number | undefined, number>();
      const lanes = await Promise.all(
        options.lanes().map(async (one) => ({
          lane: one.lane,
          recent: await one.view.recent(before.get(one.lane) ?? 0, limit).catch(() => undefined),
        })),
      );
      const known = lanes.flatMap(({ lane, recent }) => (recent === undefined ? [] : [{ lane, recent }]));
      const events = known.flatMap(({ recent }) => recent.events).sort((a, b) => a.fetchedMs - b.fetchedMs);
      seen = {
        token: seen.token + 1,
        ends: new Map(known.map(({ lane, recent }) => [lane, recent.endPage])),
      };
      return { endPage: seen.token, events: events.slice(-limit) };
    },
  };
  return view;
}

const NO_LANES = { health: "degraded" as const, headline: "No lane runs that could be asked." };

function mergeGaps(list: readonly GapsView[], { limit }: GapsQuery): GapsView {
  const none = {
    gaps: 0,
    organizations: 0,
    durationMs: 0,
    events: 0,
    open: 0,
    openMs: 0,
    aside: 0,
    asideMs: 0,
  };
  return {
    totals: list.reduce((sum, { totals }) => addRecords(sum, totals), none),
    gaps: list
      .flatMap(({ gaps }) => gaps)
      .sort((a, b) => a.fromMs - b.fromMs)
      .slice(0, limit),
  };
}
