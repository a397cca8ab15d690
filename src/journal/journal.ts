import { randomUUID } from "node:crypto";
import { createBufferPool, type PageMemory } from "../core/buffer-pool.ts";
import type { Clock } from "../core/clock.ts";
import { HUGE_BYTES } from "../core/collect-garbage.ts";
import type { Appended, HeldQuery, Journal, LedgerNow, PageCommit } from "../core/journal.ts";
import type { PageDecoder } from "../core/page-decoder.ts";
import type { Position } from "../core/position.ts";
import { IDENTITY_BYTES, type PreparedPage, UNDATED_MS } from "../core/prepare-page.ts";
import type { ReadUntil } from "../core/roster.ts";
import { eventBytes, type ScannedPage, scanPage } from "../core/scanner.ts";
import { createAlsoSeen } from "./also-seen.ts";
import { createVersions } from "./archive/versions.ts";
import { createCameGaps } from "./came-gaps.ts";
import type { Connection, State } from "./database.ts";
import { createDedupe, type Deduped, type Held, storedTwins } from "./dedupe.ts";
import { createDistrust } from "./distrust.ts";
import { markedEdge } from "./edge.ts";
import { createGaps } from "./gaps.ts";
import { createIdentities } from "./identities.ts";
import { createPages, type Pages } from "./pages.ts";
import { createReadUntil } from "./read-until.ts";
import { createReaders, type Readers } from "./readers.ts";
import { createSharedTime } from "./shared-time.ts";
import { createWindows } from "./windows.ts";

/** Upper bounds of the histogram of delays; the last takes the rest. */
const LATENESS_MS = [
  10_000,
  60_000,
  300_000,
  900_000,
  3_600_000,
  21_600_000,
  86_400_000,
  604_800_000,
  2 ** 53 - 1,
];

export interface SqliteJournal extends Journal {
  /** The position after everything that is there now. */
  end(): Position;
  /** As far as this reader has come. */
  readUntil(reader: string): ReadUntil;
  readonly readers: Pick<
    Readers,
    | "names"
    | "settings"
    | "keepSettings"
    | "createAt"
    | "isArchive"
    | "archiveFacts"
    | "move"
    | "rename"
    | "forget"
  >;
  readonly pages: Pages;
}

/** A page as an append stored it. */
interface Stored {
  readonly number: number;
  readonly scanned: ScannedPage;
  readonly body: Buffer;
  readonly identities: Buffer;
  readonly records: PreparedPage["records"];
}

/** The journal over SQLite. All of `append` is one transaction: there is no moment at which a part of it is durable. */
export function createJournal(
  db: State,
  clock: Clock,
  memory: PageMemory = createBufferPool(),
  decoder?: PageDecoder,
  onDamaged?: (what: string) => void,
): SqliteJournal {
  const id = journalId(db);
  const pages = createPages(db, id, memory, decoder, onDamaged);
  const dedupe = createDedupe();
  const identities = createIdentities(db);
  const gaps = createGaps(db, clock);
  const cameGaps = createCameGaps(db, clock);
  const windows = createWindows(db, gaps);
  const readers = createReaders(db, pages, id, clock);
  const versions = createVersions(db);
  const alsoSeen = createAlsoSeen(db);
  const sharedTime = createSharedTime(db, identities.count);
  const countHeld = (query: HeldQuery) => sharedTime.limited(query, identities.count(query));
  const now: LedgerNow = { countHeld, window: (id) => windows.list({ id })[0] };
  const listeners = new Set<() => void>();
  const countLate = db.prepare(
    `INSERT INTO lateness (account, at_most_ms, events) VALUES (?, ?, ?)
     ON CONFLICT (account, at_most_ms) DO UPDATE SET events = events + excluded.events`,
  );
  const countEvents = db.prepare(
    `UPDATE organizations SET events = events + ?, last_event_ms = MAX(COALESCE(last_event_ms, 0), ?)
     WHERE account = ? AND id = ?`,
  );

  /** Inside a change. */
  function append(commit: PageCommit): { appended: Appended; stored: Stored | null } {
    let stored: Stored | null = null;
    // A page for one reader alone is held already, so only repeats inside the pass are left out (R21).
    const held = commit.reader === null ? identities.heldFor(commit.page) : NOTHING_HELD;
    const deduped = before(commit.endMs, commit.page, dedupe(commit.page, commit.edge, held));
    if (deduped.fresh.length > 0) {
      stored = insertFresh(commit, deduped);
      if (commit.reader === null) identities.add(commit.page, deduped, stored.number);
    }
    const late = lateOnes(commit, deduped);
    for (const [atMostMs, events] of late.byDelay) countLate.run(commit.account, atMostMs, events);
    const { known, repeated, edge } = deduped;
    if (commit.reader === null && deduped.changed.length > 0) insertVersions(commit, deduped.changed);
    const byOrganization = countByOrganization(commit, deduped);
    const appended: Appended = {
      page: stored?.number ?? null,
      byOrganization,
      fresh: deduped.fresh.length,
      known,
      repeated: repeated.length,
      repeatedAt: repeated,
      changed: deduped.changed.length,
      late: late.count,
      edge,
      ...(deduped.missedTwins.length > 0 && {
        againWith: markedEdge(commit.page, deduped.missedTwins, commit.edge),
      }),
      countHeld,
    };
    if (commit.reader === null) {
      for (const [organization, { events, newestMs }] of byOrganization)
        countEvents.run(events, newestMs, commit.account, organization);
      cameGaps.note(commit, deduped.fresh);
      sharedTime.noteFound(commit, deduped.fresh);
      sharedTime.noteSeen(commit, alsoSeen.note(commit, deduped, held));
    }
    windows.apply(commit.change(appended));
    return { appended, stored };
  }

  function insertFresh(commit: PageCommit, deduped: Deduped): Stored {
    const { page, account, organization, provider, reader, fetchedAtMs } = commit;
    const newestMs = newestOf(commit, deduped);
    const whole = isWhole(page, deduped);
    const scanned = whole ? page.scanned : subset(page.scanned, deduped.fresh);
    const inserted = pages.insert(
      {
        account,
        organization,
        provider,
        reader,
        fetchedMs: fetchedAtMs,
        newestMs,
        twins: storedTwins(deduped),
      },
      scanned,
      whole ? page.body : undefined,
    );
    const identities = whole ? page.identities : identitiesOf(page, deduped.fresh);
    return { ...inserted, scanned, identities, records: whole ? page.records : undefined };
  }

  /** Other bytes of held events, for archives alone: sinks have delivered the event (A9). */
  function insertVersions(commit: PageCommit, changed: readonly number[]): void {
    const { page, account, organization, provider, fetchedAtMs: fetchedMs } = commit;
    for (const { archive: reader, indexes } of versions.note(commit, changed)) {
      const newestMs = Math.max(...indexes.map((index) => page.timesMs[index]!));
      const row = { account, organization, provider, reader, fetchedMs, newestMs, twins: null };
      pages.insert(row, subset(page.scanned, indexes));
    }
  }

  return {
    id,
    async append(commit) {
      const { appended, stored } = await db.change(() => append(commit));
      if (stored !== null) {
        const isWholePage = stored.scanned === commit.page.scanned;
        const lease = isWholePage ? commit.lease.retain() : memory.adopt(stored.scanned.bytes);
        // A body this large is hardly smaller than the page.
        const body = stored.body.length > HUGE_BYTES ? undefined : stored.body;
        pages.keepDecoded(stored.number, { ...stored, body, lease }, commit.reader === null);
        for (const listener of listeners) listener();
      }
      return appended;
    },
    changeWindows: (change) =>
      db.change(() => windows.apply(typeof change === "function" ? change(now) : change)),
    stream: (description) => db.change(() => windows.stream(description)),
    windows: async (filter) => windows.list(filter),
    covered: async (account) => windows.covered(account),
    sealedElsewhere: async (account, beforeMs) => windows.sealedElsewhere(account, beforeMs),
    leftBehind: async (accounts) => windows.leftBehind(accounts),
    async held(owners, fromMs, toMs, from, timesMs) {
      const held = identities.held(owners, fromMs, toMs, timesMs);
      if (from !== undefined) for (const key of alsoSeen.unseen(owners, from, fromMs, toMs)) held.delete(key);
      return { count: held.size, has: (identity) => held.has(Buffer.from(identity).toString("latin1")) };
    },
    countHeld: async (query) => countHeld(query),
    gaps: async (query) => gaps.list(query),
    gapTotals: async (query) => gaps.totals(query),
    ...createDistrust(db),
    reader: (name) => readers.open(name),
    onAppend(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    end: () => pages.end(),
    readUntil: createReadUntil(db),
    readers,
    pages,
    async close() {
      listeners.clear();
    },
  };
}

function journalId(db: State): string {
  const select = db.prepare("SELECT value FROM meta WHERE key = 'journal'").pluck();
  const known = select.get() as string | undefined;
  // A lane's journal has its id since it was opened: it cannot be written outside a change.
  if (known !== undefined) return known;
  nameJournal(db);
  return select.get() as string;
}

/** Gives the journal its id, unless it has one. */
export function nameJournal(db: Connection): void {
  db.prepare("INSERT OR IGNORE INTO meta (key, value) VALUES ('journal', ?)").run(randomUUID());
}

/** A page of the chosen events alone: their exact bytes, in order. */
function subset(scanned: ScannedPage, indexes: Iterable<number>): ScannedPage {
  const parts: Uint8Array[] = [];
  for (const index of indexes) parts.push(parts.length === 0 ? OPEN : COMMA, eventBytes(scanned, index));
  return scanPage(Buffer.concat([...parts, CLOSE]));
}

function identitiesOf({ identities }: PreparedPage, indexes: Uint32Array): Buffer {
  const chosen = Buffer.allocUnsafe(indexes.length * IDENTITY_BYTES);
  for (const [at, index] of indexes.entries())
    identities.copy(chosen, at * IDENTITY_BYTES, index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
  return chosen;
}

const NOTHING_HELD: Held = new Map();
const OPEN = Buffer.from("[");
const COMMA = Buffer.from(",");
const CLOSE = Buffer.from("]");

/** A request ends at a whole second, and the service may send events of that very time too. */
function before(endMs: number | undefined, { timesMs }: PreparedPage, deduped: Deduped): Deduped {
  if (endMs === undefined) return deduped;
  return { ...deduped, fresh: deduped.fresh.filter((index) => timesMs[index]! < endMs) };
}

/** Usually the whole page is new, so its totals are reused. */
function isWhole({ scanned }: PreparedPage, { fresh }: Deduped): boolean {
  return fresh.length === scanned.count;
}

function newestOf({ page, fetchedAtMs }: PageCommit, deduped: Deduped): number {
  // The identities of events without a time are kept as if they had happened when they were fetched (R12).
  let newestMs = page.undated > 0 ? fetchedAtMs : 0;
  if (isWhole(page, deduped)) return Math.max(newestMs, ...page.spans.map(({ lastMs }) => lastMs));
  for (const index of deduped.fresh) newestMs = Math.max(newestMs, page.timesMs[index]!);
  return newestMs;
}

function countByOrganization({ page }: PageCommit, deduped: Deduped): Appended["byOrganization"] {
  const counts = new Map<string | null, { events: number; newestMs: number }>();
  const { organizations, organizationIndexes, timesMs, spans } = page;
  if (isWhole(page, deduped)) {
    for (const [index, { count, lastMs }] of spans.entries())
      counts.set(organizations[index]!, { events: count, newestMs: Math.max(0, lastMs) });
    return counts;
  }
  for (const index of deduped.fresh) {
    const organization = organizations[organizationIndexes[index]!]!;
    const count = counts.get(organization) ?? { events: 0, newestMs: timesMs[index]! };
    counts.set(organization, count);
    count.events++;
    if (timesMs[index]! > count.newestMs) count.newestMs = timesMs[index]!;
  }
  return counts;
}

function lateOnes(commit: PageCommit, deduped: Deduped): { count: number; byDelay: Map<number, number> } {
  const byDelay = new Map<number, number>();
  let count = 0;
  if (commit.lateBeforeMs === Number.NEGATIVE_INFINITY) return { count, byDelay };
  for (const index of deduped.fresh) {
    const timeMs = commit.page.timesMs[index]!;
    if (timeMs >= commit.lateBeforeMs || timeMs === UNDATED_MS) continue;
    const delayMs = commit.fetchedAtMs - timeMs;
    const bucket = LATENESS_MS.find((atMostMs) => delayMs <= atMostMs)!;
    byDelay.set(bucket, (byDelay.get(bucket) ?? 0) + 1);
    count++;
  }
  return { count, byDelay };
}
