import type { JournalEvent } from "../core/event.ts";
import type { PageLease } from "../core/page-lease.ts";
import type { Position } from "../core/position.ts";
import type { Batch, SinkRecord, Stretch } from "../core/sink.ts";
import { EncodedLines } from "./encoded-lines.ts";

/** A batch with one lease for each page that it has bytes of. Delivery releases them after the write. */
export interface LeasedBatch extends Batch {
  readonly leases: readonly PageLease[];
}

/** Most sinks want records; one that takes lines as they are leaves them unmade. */
export class LinesBatch implements LeasedBatch {
  readonly from: Position;
  readonly to: Position;
  readonly leases: readonly PageLease[];
  readonly stretches: readonly Stretch[];
  #records: readonly SinkRecord[] | undefined;

  constructor(stretches: readonly Stretch[], from: Position, to: Position, leases: readonly PageLease[]) {
    this.leases = leases;
    this.stretches = stretches;
    this.from = from;
    this.to = to;
  }

  get records(): readonly SinkRecord[] {
    this.#records ??= recordsIn(this.stretches);
    return this.#records;
  }
}

export function recordsIn(stretches: readonly Stretch[]): SinkRecord[] {
  const records: SinkRecord[] = [];
  for (const { lines, from, to } of stretches)
    for (let index = from; index < to; index++)
      records.push(
        lines instanceof EncodedLines
          ? new EncodedRecord(lines, index)
          : new VerbatimRecord(lines.event(index)),
      );
  return records;
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

/** Its body is a look at the chunk. */
class EncodedRecord implements SinkRecord {
  readonly event: JournalEvent;
  readonly #lines: EncodedLines;
  readonly #index: number;

  constructor(lines: EncodedLines, index: number) {
    this.event = lines.event(index);
    this.#lines = lines;
    this.#index = index;
  }

  get body(): Uint8Array {
    return this.#lines.bytes(this.#index, this.#index + 1).subarray(0, -1);
  }
  get size(): number {
    return this.#lines.size(this.#index, this.#index + 1) - 1;
  }
}

export function recordOf(event: JournalEvent, body: Uint8Array | string, size: number): SinkRecord {
  return { event, body: typeof body === "string" ? Buffer.from(body) : body, size };
}

/** The batch without these records. */
export function without({ records, from, to }: Batch, indexes: Iterable<number>): Batch {
  const gone = new Set(indexes);
  return { records: records.filter((_, index) => !gone.has(index)), from, to };
}
