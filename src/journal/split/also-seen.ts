import { hash } from "node:crypto";
import { ENTRY_BYTES } from "../held-counts.ts";
import { OF_SOURCE, sourceOf } from "../sources.ts";
import type { Move } from "./move.ts";

/*
 * Events that two sources have shown (journal/sources.ts), when states are split or merged. A portal is in shard 0, an
 * organization may be in another shard:
 *
 *   - Both sources come to one shard: the event is held there once, and the other source is a row of also_seen. Two
 *     shards may have held it each.
 *   - Only the source that showed it second comes to a shard: its row becomes identities there. Without them the event
 *     would be delivered again.
 */

export interface Entries {
  readonly owner: string;
  readonly first_ms: number;
  readonly last_ms: number;
  readonly entries: Buffer;
}

interface Source {
  readonly account: string;
  readonly provider: string | null;
}

export interface SeenRow extends Omit<Entries, "entries">, Source {
  readonly events: number;
  /** null: their identities are forgotten. */
  readonly entries: Buffer | null;
}

const KEY_BYTES = 16;
const TIME_OFFSET = 20;

export function createSeenMover({ db, source }: Move) {
  const hasPortal = [db, source].some(
    (state) => state.prepare("SELECT 1 FROM streams WHERE provider IS NOT NULL LIMIT 1").get() !== undefined,
  );
  const held = db.prepare(
    `SELECT entries FROM identities JOIN pages ON pages.number = identities.page
     WHERE owner = @owner AND last_ms >= @first_ms AND first_ms <= @last_ms AND NOT (${OF_SOURCE})`,
  );
  const insert = db.prepare(
    `INSERT INTO also_seen (owner, account, provider, first_ms, last_ms, events, entries)
     VALUES (@owner, @account, @provider, @first_ms, @last_ms, @events, @entries)`,
  );

  /** Stores the entries that another source has brought as seen by this one too, and gives the others. */
  function withoutHeld<Row extends Entries>(row: Row, { account, provider }: Source): Row | undefined {
    if (!hasPortal && row.owner !== "") return row;
    const known = new Set<string>();
    const { owner, first_ms, last_ms } = row;
    const query = { owner, first_ms, last_ms, ...sourceOf(owner, { account, provider }) };
    for (const entries of held.pluck().iterate(query) as Iterable<Buffer>)
      for (const entry of entriesOf(entries)) known.add(keyOf(entry));
    const all = [...entriesOf(row.entries)];
    const seen = all.filter((entry) => known.has(keyOf(entry)));
    if (seen.length === 0) return row;
    insert.run({ account, provider, events: seen.length, ...shortened(row, seen) });
    const left = all.filter((entry) => !known.has(keyOf(entry)));
    return left.length === 0 ? undefined : shortened(row, left);
  }

  return {
    withoutHeld,

    /** Rows whose source the shard has; `add` takes entries that the shard does not hold, and the checksum of their page. */
    copy(isOwn: (row: SeenRow) => boolean, add: (row: Entries & Source, checksum: Buffer) => void): void {
      const rows = source.prepare(
        "SELECT owner, account, provider, first_ms, last_ms, events, entries FROM also_seen ORDER BY id",
      );
      for (const row of rows.iterate() as Iterable<SeenRow>) {
        if (!isOwn(row)) continue;
        if (row.entries === null) insert.run(row);
        else {
          const left = withoutHeld({ ...row, entries: row.entries }, row);
          if (left !== undefined) add(left, Buffer.from(hash("sha256", left.entries, "hex"), "hex"));
        }
      }
    },
  };
}

function* entriesOf(entries: Buffer): Generator<Buffer> {
  for (let at = 0; at < entries.length; at += ENTRY_BYTES) yield entries.subarray(at, at + ENTRY_BYTES);
}

function keyOf(entry: Buffer): string {
  return entry.toString("latin1", 0, KEY_BYTES);
}

/** The row with these of its entries alone. */
function shortened<Row extends Entries>(row: Row, list: readonly Buffer[]): Row {
  const times = list.map((entry) => row.first_ms + entry.readUInt32LE(TIME_OFFSET));
  const first_ms = times.reduce((least, timeMs) => Math.min(least, timeMs), Number.POSITIVE_INFINITY);
  const last_ms = times.reduce((most, timeMs) => Math.max(most, timeMs), Number.NEGATIVE_INFINITY);
  const entries = Buffer.concat(list);
  for (const [at, timeMs] of times.entries())
    entries.writeUInt32LE(timeMs - first_ms, at * ENTRY_BYTES + TIME_OFFSET);
  return { ...row, first_ms, last_ms, entries };
}
