import { IDENTITY_BYTES, type PreparedPage } from "../core/page.ts";
import type { State } from "./database.ts";
import type { Deduped, Held } from "./dedupe.ts";

const ENTRY_BYTES = IDENTITY_BYTES + 8;
/** Offsets inside a row are 32 bits of milliseconds. */
const SPAN_MS_MAX = 2 ** 32 - 1;

/** What has been seen, long after the events' bytes are trimmed (R12). */
export function createIdentities(db: State) {
  const insert = db.prepare(
    "INSERT INTO identities (owner, first_ms, last_ms, page, entries) VALUES (?, ?, ?, ?, ?)",
  );
  const overlapping = db.prepare(
    "SELECT first_ms AS firstMs, entries FROM identities WHERE owner = ? AND last_ms >= ? AND first_ms <= ?",
  );

  return {
    /** Everything held for the organizations of a page at the times of its events. */
    heldFor(page: PreparedPage): Held {
      const held = new Map<string, number>();
      for (const [owner, { firstMs, lastMs }] of spansOf(page)) load(held, owner, firstMs, lastMs);
      return held;
    },

    held(owners: readonly (string | null)[], fromMs: number, toMs: number): Held {
      const held = new Map<string, number>();
      for (const owner of owners) load(held, owner ?? "", fromMs, toMs - 1);
      return held;
    },

    add(page: PreparedPage, deduped: Deduped, pageNumber: number): void {
      for (const indexes of groupBySpan(page, deduped.fresh)) {
        const owner = ownerAt(page, indexes[0]!);
        const firstMs = indexes.reduce(
          (least, index) => Math.min(least, page.timesMs[index]!),
          Number.POSITIVE_INFINITY,
        );
        const lastMs = indexes.reduce(
          (most, index) => Math.max(most, page.timesMs[index]!),
          Number.NEGATIVE_INFINITY,
        );
        const entries = Buffer.allocUnsafe(indexes.length * ENTRY_BYTES);
        for (const [row, index] of indexes.entries()) {
          page.identities.copy(
            entries,
            row * ENTRY_BYTES,
            index * IDENTITY_BYTES,
            (index + 1) * IDENTITY_BYTES,
          );
          deduped.twins.get(index)?.copy(entries, row * ENTRY_BYTES);
          entries.writeUInt32LE(page.digests[index]!, row * ENTRY_BYTES + IDENTITY_BYTES);
          entries.writeUInt32LE(page.timesMs[index]! - firstMs, row * ENTRY_BYTES + IDENTITY_BYTES + 4);
        }
        insert.run(owner, firstMs, lastMs, pageNumber, entries);
      }
    },
  };

  function load(held: Map<string, number>, owner: string, fromMs: number, lastMs: number): void {
    for (const row of overlapping.iterate(owner, fromMs, lastMs)) {
      const { firstMs, entries } = row as { firstMs: number; entries: Buffer };
      for (let at = 0; at < entries.length; at += ENTRY_BYTES) {
        const timeMs = firstMs + entries.readUInt32LE(at + IDENTITY_BYTES + 4);
        if (timeMs < fromMs || timeMs > lastMs) continue;
        held.set(
          entries.toString("latin1", at, at + IDENTITY_BYTES),
          entries.readUInt32LE(at + IDENTITY_BYTES),
        );
      }
    }
  }
}

export type Identities = ReturnType<typeof createIdentities>;

function ownerAt(page: PreparedPage, index: number): string {
  return page.organizations[page.organizationIndexes[index]!] ?? "";
}

function spansOf(page: PreparedPage): Map<string, { firstMs: number; lastMs: number }> {
  const spans = new Map<string, { firstMs: number; lastMs: number }>();
  for (let index = 0; index < page.scanned.count; index++) {
    const timeMs = page.timesMs[index]!;
    const owner = ownerAt(page, index);
    const span = spans.get(owner);
    if (span === undefined) {
      spans.set(owner, { firstMs: timeMs, lastMs: timeMs });
    } else {
      if (timeMs < span.firstMs) span.firstMs = timeMs;
      if (timeMs > span.lastMs) span.lastMs = timeMs;
    }
  }
  return spans;
}

/** By owner, and cut where the times of one owner lie too far apart for one row. */
function groupBySpan(page: PreparedPage, indexes: readonly number[]): Iterable<number[]> {
  const groups = new Map<number, number[]>();
  for (const index of indexes) {
    const span = Math.floor(page.timesMs[index]! / (SPAN_MS_MAX / 2));
    const key = span * 65_536 + page.organizationIndexes[index]!;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [index]);
    else group.push(index);
  }
  return groups.values();
}
