import type { JournalEvent } from "../core/event.ts";
import type { JournalPage, JournalReader } from "../core/journal.ts";
import type { Position } from "../core/position.ts";
import type { Batch, BatchLimits, SinkRecord } from "../core/sink.ts";

/** An event that no batch can hold: too large by itself, or its format failed on it. */
export interface Misfit {
  readonly event: JournalEvent;
  readonly reason: string;
}

export interface Formed {
  readonly batch: Batch | null;
  readonly misfits: readonly Misfit[];
  /** How far the journal was looked through, whether or not anything was taken. */
  readonly to: Position;
  /** False when more events would fit and none are there yet. */
  readonly full: boolean;
  /** When the oldest of them was pulled; for the age of an unfilled batch. */
  readonly oldestMs: number;
}

export interface Forming {
  readonly reader: JournalReader;
  readonly from: Position;
  readonly limits: BatchLimits;
  readonly recordsMax: number;
  /** The end that was made durable before (R19): exactly up to there, whatever the limits say now. */
  readonly bound: Position | undefined;
  wants(event: JournalEvent): boolean;
  encode(event: JournalEvent): Uint8Array | string;
  /** True: `encode` gives the bytes of an event that is one line as they are. */
  readonly keepsBytes: boolean;
}

/** How many events are passed over in one turn before the position is committed and others get their turn. */
const PASSED_OVER_MAX = 50_000;
/** How many misfits are held in memory before they become dead letters. */
const MISFITS_MAX = 1000;

/** Takes events from the journal until the batch is full by number or bytes, measured after encoding. */
export async function formBatch(forming: Forming): Promise<Formed> {
  const { reader, from, limits, bound } = forming;
  const overhead = limits.recordOverheadBytes ?? 0;
  // A body must keep to its own limit, and fit alone into a batch with all that frames it.
  const bodyBytesMax = Math.min(
    limits.recordBytesMax ?? Number.POSITIVE_INFINITY,
    limits.bytesMax - (limits.batchOverheadBytes ?? 0) - overhead,
  );
  const records: SinkRecord[] = [];
  const misfits: Misfit[] = [];
  let bytes = limits.batchOverheadBytes ?? 0;
  let to = from;
  let passedOver = 0;
  let oldestMs = Number.POSITIVE_INFINITY;
  const done = (full: boolean): Formed => ({
    batch: records.length === 0 ? null : { records, from, to },
    misfits,
    to,
    full,
    oldestMs,
  });

  for (;;) {
    const page: JournalPage | null = await reader.read(to);
    if (page === null) return done(false);
    // Better two batches than one that ends inside a page: they hold less in memory.
    const isTooMuch = records.length > 0 && records.length + page.count > forming.recordsMax;
    if (isTooMuch && page.count <= forming.recordsMax && bound === undefined) return done(true);
    const end = page.first + page.count;
    // Where the batch ends inside the page; what follows is another batch's.
    let next = page.first;
    let full = false;
    for (; next < end && !full; next++) {
      if (bound !== undefined && isPast(page.number, next, bound)) break;
      const event = page.event(next);
      if (!forming.wants(event)) {
        full = ++passedOver >= PASSED_OVER_MAX;
        continue;
      }
      const record = recordOf(forming, event);
      if (record instanceof Error) {
        misfits.push({ event, reason: `it could not be encoded: ${record.message}` });
      } else if (record.size > bodyBytesMax) {
        misfits.push({
          event,
          reason: `its ${record.size} bytes are more than the ${bodyBytesMax} that the destination takes`,
        });
      } else {
        const size = record.size + overhead;
        const fits = records.length < forming.recordsMax && bytes + size <= limits.bytesMax;
        if (bound === undefined && records.length > 0 && !fits) break;
        records.push(record);
        bytes += size;
        oldestMs = Math.min(oldestMs, event.fetchedAtMs);
      }
      full = misfits.length >= MISFITS_MAX;
    }
    if (next > page.first) to = page.after(next - 1);
    if (full || next < end) return done(true);
    if (records.length >= forming.recordsMax && bound === undefined) return done(true);
  }
}

/** Nothing is held for it but the event: its body is a look at the event's own bytes. */
class VerbatimRecord implements SinkRecord {
  readonly event: JournalEvent;

  constructor(event: JournalEvent) {
    this.event = event;
  }

  get body(): Uint8Array {
    return this.event.bytes;
  }
  get size(): number {
    return this.event.size;
  }
}

/** A format that fails on an event is a bug, but neither the event nor the others may suffer from it. */
function recordOf(forming: Forming, event: JournalEvent): SinkRecord | Error {
  if (forming.keepsBytes && event.isOneLine) return new VerbatimRecord(event);
  try {
    const encoded = forming.encode(event);
    const body = typeof encoded === "string" ? Buffer.from(encoded) : encoded;
    return { event, body, size: body.length };
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function isPast(page: number, index: number, bound: Position): boolean {
  return page > bound.page || (page === bound.page && index >= bound.event);
}
