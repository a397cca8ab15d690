import { byOwner } from "../core/by-owner.ts";
import { gapNameOf, mayBeAbout } from "../core/gap.ts";
import type { HeldQuery, PageCommit } from "../core/journal.ts";
import { IDENTITY_BYTES } from "../core/prepare-page.ts";
import { FIELD, fieldText } from "../core/scanner.ts";
import type { OwnerCounts } from "../core/window.ts";
import type { State } from "./database.ts";
import type { HeldCounts } from "./held-counts.ts";
import type { AskedSource } from "./sources.ts";

interface CountedRow {
  readonly id: number;
  readonly from_ms: number;
  readonly to_ms: number;
  readonly api_count: number | null;
  readonly held_count: number;
  readonly counts: string | null;
}

export interface StoredStream {
  readonly id: number;
  readonly account: string;
  readonly provider: string | null;
  readonly organizations: string;
  readonly services: string;
}

/**
 * Keeps the counts of windows true where several windows cover the same time of an organization (R36):
 * - An event that one of them finds late is held for the others too, so their counts grow with it. The service's
 *   count does not grow by an event that the service had shown before, and that a gap names as missing.
 * - So do they with a held event that their source shows for the first time, unless a count has it already: an earlier
 *   version counted the events of all sources for an organization.
 * - Identities do not say which service an event is of. Where an owner is read with different sets of services,
 *   no more events count as held than the query of the window has shown. An event that is found does say it, so it
 *   is added to the windows that ask for its service.
 */
export function createSharedTime(db: State, countHeld: HeldCounts) {
  const streams = createStreamIndex(db);
  const counted = db.prepare(
    `SELECT id, from_ms, to_ms, api_count, held_count, counts FROM windows WHERE stream = ? AND from_ms <= ?
       AND to_ms > ? AND live = 0 AND state IN ('read', 'sealed') AND held_count IS NOT NULL AND reader IS NULL`,
  );
  const unreadable = db.prepare(
    `SELECT id, detail FROM gaps WHERE account = ? AND provider IS ? AND organization = ? AND reason = 'unreadable'
       AND to_ms > ? AND from_ms <= ? ORDER BY from_ms DESC`,
  );
  const update = db.prepare("UPDATE windows SET api_count = ?, held_count = ?, counts = ? WHERE id = ?");
  const isCovered = db.prepare(
    "SELECT 1 FROM windows WHERE stream = ? AND from_ms < ? AND (to_ms > ? OR live = 1) LIMIT 1",
  );

  return {
    /** Inside the transaction that adds the new events of a page. */
    noteFound(commit: PageCommit, fresh: Indexes): void {
      note(commit, fresh);
      noteOthers(commit, fresh);
    },

    /** Inside the transaction that notes held events of a page as shown by its source too. */
    noteSeen(commit: PageCommit, seen: Indexes): void {
      note(commit, seen, (row, owner) => {
        const { from_ms: fromMs, to_ms: toMs } = row;
        const held = countHeld({ ...commit, owners: [owner], fromMs, toMs }).get(owner) ?? 0;
        const before =
          row.counts === null ? row.held_count : ((JSON.parse(row.counts) as OwnerCounts)[owner]?.[1] ?? 0);
        return held - before;
      });
    },

    /** The counts of identities, less what is of services that the query does not ask for. */
    limited(query: HeldQuery, counts: Map<string, number>) {
      const { owners, services, atMost, fromMs, toMs } = query;
      if (services === undefined || atMost === undefined) return counts;
      for (const owner of owners) {
        const count = counts.get(owner) ?? 0;
        const limit = Object.hasOwn(atMost, owner) ? atMost[owner]! : 0;
        if (count <= limit) continue;
        const others = streams.others(owner, query, keyOf(services));
        if (!others.some((stream) => isCovered.get(stream, toMs, fromMs) !== undefined)) continue;
        if (limit > 0) counts.set(owner, limit);
        else counts.delete(owner);
      }
      return counts;
    },
  };

  function note(commit: PageCommit, indexes: Indexes, atMost?: AtMost): void {
    const { page, services } = commit;
    if (services === undefined || indexes.length === 0) return;
    const [firstMs, lastMs] = spanOf(page.timesMs, indexes);
    for (const stream of streams.sharing(commit, keyOf(services)))
      for (const row of counted.all(stream, lastMs, firstMs) as CountedRow[])
        addTo(row, stream, commit, indexes, atMost);
  }

  /** Windows of other sets of services. */
  function noteOthers(commit: PageCommit, fresh: Indexes): void {
    const { page, services } = commit;
    if (services === undefined || fresh.length === 0) return;
    const others = streams.otherServices(commit, keyOf(services));
    if (others.size === 0) return;
    const byService = new Map<string, number[]>();
    for (const index of fresh) {
      const service = fieldText(page.scanned, index, FIELD.service) ?? "";
      const indexes = byService.get(service);
      if (indexes === undefined) byService.set(service, [index]);
      else indexes.push(index);
    }
    for (const [stream, asked] of others) {
      const indexes = [...byService].flatMap(([service, own]) =>
        streams.isAskedFor(service, asked) ? own : [],
      );
      if (indexes.length === 0) continue;
      const [firstMs, lastMs] = spanOf(page.timesMs, indexes);
      for (const row of counted.all(stream, lastMs, firstMs) as CountedRow[])
        addTo(row, stream, commit, indexes, undefined);
    }
  }

  function addTo(
    row: CountedRow,
    stream: number,
    commit: PageCommit,
    indexes: Indexes,
    atMost: AtMost | undefined,
  ): void {
    const { page } = commit;
    const members = streams.membersOf(stream);
    const found = new Map<string, Found>();
    const limits = new Map<string, number>();
    let [total, totalShown] = [0, 0];
    // Where every event that was shown is held, no event that is found was shown before.
    const named = (row.api_count ?? 0) > row.held_count ? new Set<number>() : undefined;
    for (const index of indexes) {
      const timeMs = page.timesMs[index]!;
      if (timeMs < row.from_ms || timeMs >= row.to_ms) continue;
      const owner = page.organizations[page.organizationIndexes[index]!] ?? "";
      if (members.size > 0 && !members.has(owner)) continue;
      const { events, shownBefore } = found.get(owner) ?? { events: 0, shownBefore: 0 };
      if (atMost !== undefined && !limits.has(owner)) limits.set(owner, atMost(row, owner));
      if (events >= (limits.get(owner) ?? Number.POSITIVE_INFINITY)) continue;
      // A held event that a window lacks and its source shows now: an earlier version counted it for the service alone.
      const wasShown = named !== undefined && (atMost !== undefined || isNamed(commit, index, owner, named));
      found.set(owner, { events: events + 1, shownBefore: shownBefore + (wasShown ? 1 : 0) });
      total++;
      if (wasShown) totalShown++;
    }
    if (total === 0) return;
    const all = { events: total, shownBefore: totalShown };
    const [apiCount, heldCount] = grown([row.api_count ?? 0, row.held_count], all);
    update.run(row.api_count === null ? null : apiCount, heldCount, withFound(row.counts, found), row.id);
  }

  /** Whether a gap is about this event. One gap is about one event; `used` are those of other events. */
  function isNamed(commit: PageCommit, index: number, owner: string, used: Set<number>) {
    const { page, account, provider, isOwn } = commit;
    const timeMs = page.timesMs[index]!;
    // The gaps of a portal, and of a key's own organization, name no organization.
    const organization = provider !== null || isOwn ? "" : owner;
    const gaps = unreadable.all(account, provider, organization, timeMs, timeMs) as {
      readonly id: number;
      readonly detail: string;
    }[];
    if (gaps.length === 0) return false;
    const identity = page.identities.subarray(index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
    const name = gapNameOf(fieldText(page.scanned, index, FIELD.id), identity.toString("hex"));
    const gap = gaps.find(({ id, detail }) => !used.has(id) && mayBeAbout(detail, name));
    if (gap !== undefined) used.add(gap.id);
    return gap !== undefined;
  }
}

type Indexes = ArrayLike<number> & Iterable<number>;
/** How many events more an owner may have in a window. */
type AtMost = (row: CountedRow, owner: string) => number;

/** New events of an owner in a window, and how many of them the service's count of the window has already. */
interface Found {
  readonly events: number;
  readonly shownBefore: number;
}

function grown([api, held]: readonly [number, number], { events, shownBefore }: Found): [number, number] {
  // Another window over the same time may have written the gap: this one has not counted the event then.
  const counted = Math.min(shownBefore, Math.max(0, api - held));
  return [api + events - counted, held + events];
}

function withFound(counts: string | null, found: ReadonlyMap<string, Found>): string | null {
  if (counts === null) return null;
  const all = byOwner(JSON.parse(counts) as OwnerCounts);
  for (const [owner, more] of found) all[owner] = grown(all[owner] ?? [0, 0], more);
  return JSON.stringify(all);
}

/** The streams by owner, portal or account. Streams are only ever added, so a larger highest id is the one reason to look again. */
function createStreamIndex(db: State) {
  const newest = db.prepare("SELECT MAX(id) FROM streams").pluck();
  const after = db.prepare("SELECT id, account, provider, organizations, services FROM streams WHERE id > ?");
  const byOwner = new Map<string, StoredStream[]>();
  const members = new Map<number, ReadonlySet<string>>();
  /** Services that a config has named beside "all": "all" does not show them. */
  const besideAll = new Set<string>();
  let knownId = 0;

  function streamsOf(owner: string): readonly StoredStream[] {
    const newestId = (newest.get() as number | null) ?? 0;
    if (newestId !== knownId) {
      for (const row of after.all(knownId) as StoredStream[]) learn(row);
      knownId = newestId;
    }
    return byOwner.get(owner) ?? [];
  }

  function learn(row: StoredStream): void {
    const organizations = JSON.parse(row.organizations) as string[];
    members.set(row.id, new Set(organizations));
    const services = JSON.parse(row.services) as string[];
    if (services.includes("all")) for (const service of services) besideAll.add(service);
    const names = organizations.length > 0 ? organizations : [ownOf(row.account)];
    for (const name of row.provider === null ? names : [portalOf(row.provider)]) {
      const list = byOwner.get(name);
      if (list === undefined) byOwner.set(name, [row]);
      else list.push(row);
    }
  }

  /** A stream comes once for each of its members. */
  function shownBy({ page, account, provider, isOwn }: PageCommit): readonly StoredStream[] {
    if (provider !== null) return streamsOf(portalOf(provider));
    const names = [...page.organizations, ...(isOwn ? [ownOf(account)] : [])];
    return names.flatMap((name) => streamsOf(name ?? ""));
  }

  return {
    isAskedFor: (service: string, asked: readonly string[]) =>
      asked.includes(service) || (asked.includes("all") && !besideAll.has(service)),
    membersOf: (stream: number) => members.get(stream) ?? new Set<string>(),
    /** Streams of the same services that show the events of this page too. */
    sharing(commit: PageCommit, services: string): Set<number> {
      const found = new Set<number>();
      for (const row of shownBy(commit)) if (row.services === services) found.add(row.id);
      return found;
    },
    /** The streams of other services that may show events of this page, and their services. */
    otherServices(commit: PageCommit, services: string): ReadonlyMap<number, readonly string[]> {
      const found = new Map<number, readonly string[]>();
      for (const row of shownBy(commit))
        if (row.services !== services && !found.has(row.id))
          found.set(row.id, JSON.parse(row.services) as string[]);
      return found;
    },
    /** Streams of other services to which the owner belongs, or may belong. */
    others(owner: string, { account, provider }: AskedSource, services: string): readonly number[] {
      const names = provider !== null ? [portalOf(provider)] : [owner, ownOf(account)];
      return names
        .flatMap((name) => streamsOf(name))
        .filter((row) => row.services !== services)
        .map(({ id }) => id);
    },
  };
}

/** No organization has a name like these. */
const portalOf = (provider: string) => `portal ${provider}`;
const ownOf = (account: string) => `own ${account}`;

/** As the table of streams has it. */
function keyOf(services: readonly string[]): string {
  return JSON.stringify([...services].sort());
}

function spanOf(timesMs: Float64Array, indexes: Indexes): [number, number] {
  let [firstMs, lastMs] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const index of indexes) {
    firstMs = Math.min(firstMs, timesMs[index]!);
    lastMs = Math.max(lastMs, timesMs[index]!);
  }
  return [firstMs, lastMs];
}
