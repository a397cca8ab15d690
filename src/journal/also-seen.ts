import { twinIdentity } from "../core/identity.ts";
import type { PageCommit } from "../core/journal.ts";
import { IDENTITY_BYTES, type PreparedPage, UNDATED_MS } from "../core/prepare-page.ts";
import { DAY_MS } from "../core/time.ts";
import type { State } from "./database.ts";
import type { Deduped, Held } from "./dedupe.ts";
import { ENTRY_BYTES } from "./held-counts.ts";
import { type AskedSource, createSharedOwners, OF_SOURCE, sourceOf } from "./sources.ts";

/** Remembers which held events another source has shown too (sources.ts). */
export function createAlsoSeen(db: State) {
  const isShared = createSharedOwners(db);
  const stretch = "owner = @owner AND last_ms >= @fromMs AND first_ms <= @lastMs";
  const ofOthers = db.prepare(
    `SELECT first_ms AS firstMs, entries FROM identities JOIN pages ON pages.number = identities.page
     WHERE ${stretch} AND NOT (${OF_SOURCE})`,
  );
  const seen = db.prepare(
    `SELECT first_ms AS firstMs, entries FROM also_seen WHERE ${stretch} AND ${OF_SOURCE} AND entries IS NOT NULL`,
  );
  const insert = db.prepare(
    `INSERT INTO also_seen (owner, account, provider, first_ms, last_ms, events, entries)
     VALUES (@owner, @account, @provider, @firstMs, @lastMs, @events, @entries)`,
  );

  /** Adds the identities that are held and that this source has not shown yet. */
  function load(into: Set<string>, owner: string, asked: AskedSource, fromMs: number, lastMs: number): void {
    if (!isShared(owner, asked)) return;
    const query = { owner, fromMs, lastMs, ...sourceOf(owner, asked) };
    const before = into.size;
    for (const row of ofOthers.iterate(query)) for (const key of keysIn(row as Row)) into.add(key);
    if (into.size > before)
      for (const row of seen.iterate(query)) for (const key of keysIn(row as Row)) into.delete(key);
  }

  return {
    /** Held identities of a half-open stretch of time that the source has not shown; maybe some of around it. */
    unseen(
      owners: readonly (string | null)[],
      asked: AskedSource,
      fromMs: number,
      toMs: number,
    ): ReadonlySet<string> {
      const found = new Set<string>();
      for (const owner of owners) load(found, owner ?? "", asked, fromMs, toMs - 1);
      return found;
    },

    /** Inside the transaction of a page: notes its events that other sources have brought. Gives their indexes. */
    note(commit: PageCommit, deduped: Deduped, held: Held): readonly number[] {
      const { page, account, provider } = commit;
      if (deduped.fresh.length + deduped.repeated.length === page.scanned.count) return [];
      const unseen = new Set<string>();
      for (const [at, { firstMs, lastMs }] of page.spans.entries())
        load(unseen, page.organizations[at] ?? "", commit, firstMs, lastMs);
      if (unseen.size === 0) return [];
      const groups = new Map<string, Sighting[]>();
      for (const sighting of sightingsIn(page, deduped, held)) {
        if (!unseen.delete(sighting.key)) continue;
        const { owner, timeMs } = sighting;
        const name = `${Math.floor(timeMs / DAY_MS)} ${owner}`;
        const group = groups.get(name);
        if (group === undefined) groups.set(name, [sighting]);
        else group.push(sighting);
      }
      for (const sightings of groups.values()) insert.run({ account, provider, ...rowOf(sightings) });
      return [...groups.values()].flatMap((sightings) => sightings.map(({ index }) => index));
    },
  };
}

export type AlsoSeen = ReturnType<typeof createAlsoSeen>;

interface Row {
  readonly firstMs: number;
  readonly entries: Buffer;
}

function* keysIn({ entries }: Row): Generator<string> {
  for (let at = 0; at < entries.length; at += ENTRY_BYTES)
    yield entries.toString("latin1", at, at + IDENTITY_BYTES);
}

interface Sighting {
  readonly index: number;
  readonly owner: string;
  readonly timeMs: number;
  readonly digest: number;
  /** The identity under which the event is held. */
  readonly key: string;
}

/** The events of a page that were held before. No window counts those without a time. */
function* sightingsIn(page: PreparedPage, deduped: Deduped, held: Held): Generator<Sighting> {
  const left = new Set([...deduped.fresh, ...deduped.repeated]);
  for (let index = 0; index < page.scanned.count; index++) {
    const timeMs = page.timesMs[index]!;
    if (left.has(index) || timeMs === UNDATED_MS) continue;
    const digest = page.digests[index]!;
    const owner = page.organizations[page.organizationIndexes[index]!] ?? "";
    yield { index, owner, timeMs, digest, key: heldKey(page, index, digest, held) };
  }
}

function heldKey(page: PreparedPage, index: number, digest: number, held: Held): string {
  const identity = page.identities.subarray(index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
  const key = identity.toString("latin1");
  if (held.get(key) === digest) return key;
  const twin = twinIdentity(identity, digest).toString("latin1");
  return held.has(twin) ? twin : key;
}

function rowOf(sightings: readonly Sighting[]) {
  const firstMs = sightings.reduce((least, { timeMs }) => Math.min(least, timeMs), Number.POSITIVE_INFINITY);
  const lastMs = sightings.reduce((most, { timeMs }) => Math.max(most, timeMs), Number.NEGATIVE_INFINITY);
  const entries = Buffer.alloc(sightings.length * ENTRY_BYTES);
  for (const [row, { key, digest, timeMs }] of sightings.entries()) {
    const at = row * ENTRY_BYTES;
    entries.write(key, at, "latin1");
    entries.writeUInt32LE(digest, at + IDENTITY_BYTES);
    entries.writeUInt32LE(timeMs - firstMs, at + IDENTITY_BYTES + 4);
  }
  const { owner } = sightings[0]!;
  return { owner, firstMs, lastMs, events: sightings.length, entries };
}
