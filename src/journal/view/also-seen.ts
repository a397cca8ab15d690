import { setImmediate } from "node:timers/promises";
import { IDENTITY_BYTES } from "../../core/prepare-page.ts";
import { DAY_MS } from "../../core/time.ts";
import type { State } from "../database.ts";
import { ENTRY_BYTES } from "../held-counts.ts";
import { sourceOf } from "../sources.ts";
import type { Excess, OwnerWindow } from "./overlap-groups.ts";
import type { StreamRow } from "./streams.ts";

const SLICE_ROWS = 500;

interface SeenRow {
  readonly id: number;
  readonly owner: string;
  readonly account: string;
  readonly provider: string | null;
  readonly lastMs: number;
  readonly firstMs: number;
  readonly events: number;
  readonly entries: Buffer | null;
}

/**
 * An event that two sources have shown is counted by the windows of both (journal/sources.ts): the sum over all windows
 * has it once too often.
 */
export function createAlsoSeenView(db: State) {
  const owners = db.prepare("SELECT DISTINCT owner FROM also_seen").pluck();
  const slice = db.prepare(
    `SELECT id, owner, account, provider, first_ms AS firstMs, last_ms AS lastMs, events, entries FROM also_seen
     WHERE id > ? ORDER BY id LIMIT ${SLICE_ROWS}`,
  );

  return () => {
    const shared = new Set(owners.all() as string[]);
    /** The time of counted windows by owner and source. */
    const covered = new Map<string, Map<string, Stretch[]>>();

    return {
      has: (owner: string): boolean => shared.has(owner),

      /** Windows come in the order of their beginnings. */
      add(stream: StreamRow, owner: string, { fromMs, toMs, counts }: OwnerWindow): void {
        if (counts === null || !shared.has(owner)) return;
        const sources = covered.get(owner) ?? new Map<string, Stretch[]>();
        covered.set(owner, sources);
        const name = nameOf(owner, stream);
        const stretches = sources.get(name) ?? [];
        sources.set(name, stretches);
        const last = stretches.at(-1);
        if (last !== undefined && fromMs <= last.toMs) last.toMs = Math.max(last.toMs, toMs);
        else stretches.push({ fromMs, toMs });
      },

      /** A day at a time, since counts are shown by day. */
      async excess(): Promise<Excess[]> {
        const byDay = new Map<number, number>();
        for (let lastId = 0; covered.size > 0; ) {
          const rows = slice.all(lastId) as SeenRow[];
          for (const row of rows) take(row);
          if (rows.length < SLICE_ROWS) break;
          lastId = rows.at(-1)!.id;
          await setImmediate();
        }
        return [...byDay].map(([day, events]) => {
          const fromMs = day * DAY_MS;
          return { fromMs, toMs: fromMs + DAY_MS, apiCount: events, heldCount: events, short: 0 };
        });

        function take(row: SeenRow): void {
          const sources = covered.get(row.owner);
          const own = sources?.get(nameOf(row.owner, row));
          if (sources === undefined || own === undefined) return;
          const others = [...sources.values()].filter((stretches) => stretches !== own);
          for (const timeMs of timesOf(row)) {
            const isTwice = isIn(own, timeMs) && others.some((stretches) => isIn(stretches, timeMs));
            const day = Math.floor(timeMs / DAY_MS);
            if (isTwice) byDay.set(day, (byDay.get(day) ?? 0) + 1);
          }
        }
      },
    };
  };
}

interface Stretch {
  readonly fromMs: number;
  toMs: number;
}

function nameOf(owner: string, asked: Pick<StreamRow, "account" | "provider">): string {
  return JSON.stringify(sourceOf(owner, asked));
}

function* timesOf({ firstMs, lastMs, events, entries }: SeenRow): Generator<number> {
  if (entries === null) for (let event = 0; event < events; event++) yield lastMs;
  else
    for (let at = IDENTITY_BYTES + 4; at < entries.length; at += ENTRY_BYTES)
      yield firstMs + entries.readUInt32LE(at);
}

/** The stretches are in order and apart. */
function isIn(stretches: readonly Stretch[], timeMs: number): boolean {
  let [low, high] = [0, stretches.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (stretches[middle]!.toMs <= timeMs) low = middle + 1;
    else high = middle;
  }
  return low < stretches.length && stretches[low]!.fromMs <= timeMs;
}
