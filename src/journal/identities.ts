import { IDENTITY_BYTES, type PreparedPage, type Span, UNDATED_MS } from "../core/prepare-page.ts";
import { DamagedStateError, type State } from "./database.ts";
import type { Deduped, Held } from "./dedupe.ts";
import { createHeldCounts, ENTRY_BYTES } from "./held-counts.ts";
import { repairOrRefuse } from "./repair-rows.ts";
import { fitsChecksum, rowChecksum } from "./row-checksums.ts";

/** Offsets inside a row are 32 bits of milliseconds. */
const SPAN_MS_MAX = 2 ** 32 - 1;

/** The identities of all events that were read, kept long after their bytes are trimmed (R12). */
export function createIdentities(db: State) {
  /** Reused for every row, which SQLite copies. */
  let scratch = Buffer.alloc(0);
  const insert = db.prepare(
    "INSERT INTO identities (owner, first_ms, last_ms, page, entries, row_checksum) VALUES (@owner, @first_ms, @last_ms, @page, @entries, @row_checksum)",
  );
  const overlapping = db.prepare(
    "SELECT * FROM identities WHERE owner = ? AND last_ms >= ? AND first_ms <= ?",
  );

  return {
    /** Everything held for the organizations of a page at the times of its events. To be called within a change. */
    heldFor(page: PreparedPage): Held {
      const held = new Map<string, number>();
      for (const [index, { firstMs, lastMs }] of page.spans.entries())
        loadWhole(held, page.organizations[index] ?? "", firstMs, lastMs);
      if (page.undated > 0)
        for (const owner of page.organizations) loadWhole(held, owner ?? "", UNDATED_MS, UNDATED_MS);
      return held;
    },

    held(
      owners: readonly (string | null)[],
      fromMs: number,
      toMs: number,
      timesMs?: ReadonlySet<number>,
    ): Map<string, number> {
      const held = new Map<string, number>();
      for (const owner of owners) {
        const [damaged] = load(held, owner ?? "", fromMs, toMs - 1, timesMs);
        if (damaged !== undefined)
          throw new DamagedStateError(db.name, `the row ${damaged} of identities does not fit its checksum`);
      }
      return held;
    },

    /** How many events are held by owner; owners without any are left out (R36). */
    count: createHeldCounts(db),

    add(page: PreparedPage, deduped: Deduped, pageNumber: number): void {
      for (const indexes of groupBySpan(page, deduped.fresh)) {
        const { firstMs, lastMs } =
          indexes.length === page.scanned.count && page.undated === 0
            ? page.spans[0]!
            : spanOf(page, indexes);
        const entries = entriesOf(page, deduped, indexes, firstMs, scratchOf(indexes.length * ENTRY_BYTES));
        const owner = ownerAt(page, indexes[0]!);
        const row = { owner, first_ms: firstMs, last_ms: lastMs, page: pageNumber, entries };
        insert.run({ ...row, row_checksum: rowChecksum(row) });
      }
    },
  };

  function scratchOf(bytes: number): Buffer {
    if (scratch.length < bytes) scratch = Buffer.allocUnsafeSlow(bytes);
    return scratch.subarray(0, bytes);
  }

  /** An event whose identity has a wrong bit would be taken for a new one and delivered twice (R37). */
  function loadWhole(held: Map<string, number>, owner: string, fromMs: number, lastMs: number): void {
    const damaged = load(held, owner, fromMs, lastMs);
    for (const id of damaged) repairOrRefuse(db, "identities", id);
    if (damaged.length > 0) load(held, owner, fromMs, lastMs);
  }

  /** Gives the ids of damaged rows, which are left out. */
  function load(
    held: Map<string, number>,
    owner: string,
    fromMs: number,
    lastMs: number,
    timesMs?: ReadonlySet<number>,
  ): number[] {
    const damaged: number[] = [];
    for (const row of overlapping.iterate(owner, fromMs, lastMs) as Iterable<IdentityRow>) {
      if (!fitsChecksum(row)) {
        damaged.push(row.id);
        continue;
      }
      const { first_ms: firstMs, entries } = row;
      const view = new DataView(entries.buffer, entries.byteOffset, entries.length);
      for (let at = 0; at < entries.length; at += ENTRY_BYTES) {
        const timeMs = firstMs + view.getUint32(at + IDENTITY_BYTES + 4, true);
        if (timeMs < fromMs || timeMs > lastMs || timesMs?.has(timeMs) === false) continue;
        held.set(
          entries.toString("latin1", at, at + IDENTITY_BYTES),
          view.getUint32(at + IDENTITY_BYTES, true),
        );
      }
    }
    return damaged;
  }
}

interface IdentityRow {
  readonly id: number;
  readonly first_ms: number;
  readonly entries: Buffer;
}

function entriesOf(
  page: PreparedPage,
  deduped: Deduped,
  indexes: Indexes,
  firstMs: number,
  entries: Buffer,
): Buffer {
  const { identities, digests, timesMs } = page;
  // Whole words at once, as they stand; what is a number of its own is little-endian everywhere.
  const from = new Uint32Array(identities.buffer, identities.byteOffset, identities.length / 4);
  const to = new Uint32Array(entries.buffer);
  const view = new DataView(entries.buffer);
  for (let row = 0; row < indexes.length; row++) {
    const index = indexes[row]!;
    for (let word = 0; word < 4; word++) to[row * 6 + word] = from[index * 4 + word]!;
    const at = row * ENTRY_BYTES + IDENTITY_BYTES;
    view.setUint32(at, digests[index]!, true);
    view.setUint32(at + 4, timesMs[index]! - firstMs, true);
  }
  for (const [index, twin] of deduped.twins) {
    const row = Array.prototype.indexOf.call(indexes, index);
    if (row >= 0) twin.copy(entries, row * ENTRY_BYTES);
  }
  return entries;
}

export type Identities = ReturnType<typeof createIdentities>;

function ownerAt(page: PreparedPage, index: number): string {
  return page.organizations[page.organizationIndexes[index]!] ?? "";
}

function spanOf({ timesMs }: PreparedPage, indexes: Indexes): Pick<Span, "firstMs" | "lastMs"> {
  let firstMs = Number.POSITIVE_INFINITY;
  let lastMs = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < indexes.length; at++) {
    const timeMs = timesMs[indexes[at]!]!;
    if (timeMs < firstMs) firstMs = timeMs;
    if (timeMs > lastMs) lastMs = timeMs;
  }
  return { firstMs, lastMs };
}

type Indexes = ArrayLike<number>;

/** By owner, and cut where the times of one owner lie too far apart for one row. */
function groupBySpan(page: PreparedPage, indexes: Uint32Array): Iterable<Indexes> {
  // Mostly they all belong together.
  const only = page.spans.length === 1 && page.undated === 0 ? page.spans[0]! : undefined;
  if (only !== undefined && partOf(only.firstMs) === partOf(only.lastMs)) return [indexes];
  const groups = new Map<number, number[]>();
  for (let at = 0; at < indexes.length; at++) {
    const index = indexes[at]!;
    const key = partOf(page.timesMs[index]!) * 65_536 + page.organizationIndexes[index]!;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [index]);
    else group.push(index);
  }
  return groups.values();
}

/** Times in one part lie close enough together. */
function partOf(timeMs: number): number {
  return Math.floor(timeMs / (SPAN_MS_MAX / 2));
}
