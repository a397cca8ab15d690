import type { Clock } from "../../core/clock.ts";
import { ACCOUNT_NOT_IN_CONFIG, type RosterEntry } from "../../core/roster.ts";
import { DAY_MS } from "../../core/time.ts";
import type {
  OrganizationsQuery,
  OrganizationsView,
  OrganizationView,
} from "../../core/view/organizations.ts";
import type { State } from "../database.ts";
import type { createLedgerView, Survey } from "./ledger.ts";
import { rowKey, sumOfExcess } from "./overlaps.ts";
import type { StreamRow } from "./streams.ts";

const FRESH_MS_MIN = 1000;
const FRESH_FACTOR = 20;
/** An organization whose live reading is further behind is a problem. */
const BEHIND_MS = 900_000;
/** A gap stays known for ever; the organization counts as a problem for so long. */
const GAP_MS = 90 * DAY_MS;

interface Row extends Omit<OrganizationView, "lagMs"> {
  readonly liveToMs: number | null;
  readonly text: string;
  /** Events of the last weeks are missing. */
  readonly hasGap: boolean;
}

/** The organizations, providers and keys' own organizations, with what the ledger says of each. */
export function createOrganizationsView(
  db: State,
  clock: Clock,
  ledger: ReturnType<typeof createLedgerView>,
  serviceNowMs: (account: string) => number,
  accounts: ReadonlySet<string>,
) {
  const roster = db.prepare(
    `SELECT account, id, name, state, reason, next_ms AS nextMs, last_event_ms AS lastEventMs, events, traffic
     FROM organizations`,
  );
  const gapOwners = db
    .prepare(
      "SELECT DISTINCT account || char(0) || coalesce(provider, organization) FROM gaps WHERE to_ms > ?",
    )
    .pluck();
  const newestHeld = db.prepare("SELECT MAX(last_ms) FROM identities WHERE owner = ?").pluck();
  let withGap: ReadonlySet<string> = new Set();
  let made:
    | { ms: number; tookMs: number; rows: readonly Row[]; sorted: Map<string, readonly Row[]> }
    | undefined;

  async function rowsNow() {
    const survey = await ledger.survey();
    const ageMs = made === undefined ? -1 : clock.now() - made.ms;
    if (made !== undefined && ageMs >= 0 && ageMs < Math.max(FRESH_MS_MIN, FRESH_FACTOR * made.tookMs))
      return made;
    const begun = performance.now();
    withGap = new Set(gapOwners.all(clock.now() - GAP_MS) as string[]);
    const rows = [...listed(survey), ...unlisted(survey)];
    made = { ms: clock.now(), tookMs: performance.now() - begun, rows, sorted: new Map() };
    return made;
  }

  function listed(survey: Survey): Row[] {
    return (roster.all() as RosterEntry[]).map((entry) => {
      const { account, id, name, state, reason, nextMs, lastEventMs, events, traffic } = entry;
      return row(survey, ledger.streams.of(account, id), {
        ...{ account, id, kind: "organization", name, state, reason, nextMs, lastEventMs, events },
        eventsPerHour: trafficOf(traffic, lastEventMs),
      });
    });
  }

  /** Streams that are not organizations of the list: a provider's portal, the key's own organization. */
  function unlisted(survey: Survey): Row[] {
    const rows: Row[] = [];
    const seen = new Set<string>();
    for (const stream of ledger.streams.all()) {
      const key = `${stream.account} ${stream.provider ?? ""}`;
      if (stream.organizations.length > 0 || seen.has(key) || !survey.streams.has(stream.id)) continue;
      seen.add(key);
      rows.push(row(survey, ledger.streams.of(stream.account, stream.provider ?? ""), unlistedOf(stream)));
    }
    return rows;
  }

  function row(
    survey: Survey,
    streams: readonly number[],
    what: Omit<
      Row,
      | "liveToMs"
      | "readToMs"
      | "text"
      | "hasGap"
      | "unreadMs"
      | "gapMs"
      | "groupSize"
      | "apiCount"
      | "heldCount"
    >,
  ): Row {
    let liveToMs: number | null = null;
    let readToMs: number | null = null;
    let [unreadMs, gapMs, groupSize] = [0, 0, 0];
    let compared: { apiCount: number; heldCount: number } | undefined;
    for (const id of streams) {
      const facts = survey.streams.get(id);
      if (facts === undefined) continue;
      unreadMs += facts.unreadMs;
      if (facts.readToMs !== null) readToMs = Math.max(readToMs ?? 0, facts.readToMs);
      gapMs += facts.expiredMs;
      const part = facts.compared.get((ledger.streams.get(id)?.organizations.length ?? 0) > 1 ? what.id : "");
      if (part !== undefined)
        compared = {
          apiCount: (compared?.apiCount ?? 0) + part.apiCount,
          heldCount: (compared?.heldCount ?? 0) + part.heldCount,
        };
      if (facts.liveToMs === null) continue;
      // Services that are read apart have a live window each; the one furthest behind counts.
      liveToMs = Math.min(liveToMs ?? facts.liveToMs, facts.liveToMs);
      groupSize = Math.max(groupSize, ledger.streams.get(id)!.organizations.length || 1);
    }
    const { account, id, kind, name, lastEventMs, events, eventsPerHour } = what;
    const { state, reason, nextMs } = accounts.has(account) ? what : LEFT_OUT;
    const excess = sumOfExcess(survey.overlaps.byRow.get(rowKey(account, id)));
    const apiCount = compared === undefined ? null : compared.apiCount - excess.apiCount;
    const heldCount = compared === undefined ? null : compared.heldCount - excess.heldCount;
    const hasGap = withGap.has(`${account}\0${id}`);
    const text = `${name}\n${id}\n${account}`.toLowerCase();
    // Several spreads make a row a hash table of 4.6 KB: 46 MB for 10,000 organizations.
    return {
      account,
      id,
      kind,
      name,
      state,
      reason,
      nextMs,
      lastEventMs,
      events,
      eventsPerHour,
      liveToMs,
      readToMs,
      unreadMs,
      gapMs,
      apiCount,
      heldCount,
      groupSize,
      text,
      hasGap,
    };
  }

  /** The average begins at 0. It is known once it has moved, or when there was no event for a day. */
  function trafficOf(traffic: number, lastEventMs: number | null): number | null {
    if (traffic > 0) return Math.round(traffic * 100) / 100;
    return lastEventMs !== null && clock.now() - lastEventMs > DAY_MS ? 0 : null;
  }

  function lagOf({ account, state, liveToMs }: Row): number | null {
    if (liveToMs === null || state !== "active") return null;
    return Math.max(0, serviceNowMs(account) - liveToMs);
  }

  function isProblem(row: Row): boolean {
    if (row.state === "vanished") return false;
    if (row.state === "refused" || row.unreadMs > 0 || row.gapMs > 0 || row.hasGap) return true;
    if (row.apiCount !== null && row.heldCount! < row.apiCount) return true;
    return (lagOf(row) ?? Number.POSITIVE_INFINITY) > BEHIND_MS;
  }

  return {
    async list(query: OrganizationsQuery): Promise<OrganizationsView> {
      const { rows, sorted } = await rowsNow();
      const order = sorted.get(query.sort) ?? [...rows].sort(ORDERS[query.sort]);
      sorted.set(query.sort, order);
      const wanted = query.search.trim().toLowerCase();
      const matched = order.filter(
        (row) =>
          (query.account === undefined || row.account === query.account) &&
          (!query.problems || isProblem(row)) &&
          (wanted === "" || row.text.includes(wanted)),
      );
      const lags = rows.map(lagOf).filter((lag) => lag !== null);
      return {
        total: rows.length,
        matched: matched.length,
        problems: rows.filter(isProblem).length,
        worstLagMs: lags.reduce<number | null>((worst, lag) => Math.max(worst ?? 0, lag), null),
        rows: matched.slice(query.offset, query.offset + query.limit).map(shown),
      };
    },
    /** A provider's portal is read like an organization, and is none. Several accounts may read one organization. */
    count: async () => {
      const rows = (await rowsNow()).rows.filter(({ kind }) => kind !== "provider");
      return new Set(rows.map(({ kind, account, id }) => (kind === "own" ? rowKey(account, id) : id))).size;
    },
  };

  function shown(row: Row): OrganizationView {
    const { liveToMs: _, text: __, hasGap: ___, ...rest } = row;
    return { ...rest, lagMs: lagOf(row), lastEventMs: lastEventOf(row) };
  }

  /** Another account may have brought the newest event. */
  function lastEventOf({ kind, id, lastEventMs }: Row): number | null {
    const heldMs = kind === "organization" ? (newestHeld.get(id) as number | null) : null;
    return heldMs === null ? lastEventMs : Math.max(heldMs, lastEventMs ?? 0);
  }
}

/** Nothing is asked for on behalf of an account that is not in the config. */
const LEFT_OUT = { state: "vanished", reason: ACCOUNT_NOT_IN_CONFIG, nextMs: null } as const;

function unlistedOf({ account, provider }: StreamRow) {
  return {
    ...{ account, id: provider ?? "", kind: provider === null ? ("own" as const) : ("provider" as const) },
    name: provider === null ? "The key's own organization" : "The provider's portal",
    ...{ state: "active" as const, reason: null, nextMs: null },
    ...{ lastEventMs: null, events: null, eventsPerHour: null },
  };
}

/** Refused ones do not arrive at all; then those that are not read live, then by how far behind they are; vanished ones last. */
function rank({ state, liveToMs }: Row): number {
  if (state === "refused") return 0;
  if (state === "vanished") return 3;
  return liveToMs === null ? 1 : 2;
}

const byName = (a: Row, b: Row) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.id < b.id ? -1 : 1);

const ORDERS: Record<OrganizationsQuery["sort"], (a: Row, b: Row) => number> = {
  lag: (a, b) => rank(a) - rank(b) || (a.liveToMs ?? 0) - (b.liveToMs ?? 0) || byName(a, b),
  name: byName,
  traffic: (a, b) =>
    (b.eventsPerHour ?? 0) - (a.eventsPerHour ?? 0) || (b.events ?? 0) - (a.events ?? 0) || byName(a, b),
  last_event: (a, b) => (a.lastEventMs ?? 0) - (b.lastEventMs ?? 0) || byName(a, b),
};
