import type { JournalEvent } from "../core/event.ts";
import type { Format } from "../core/format.ts";
import type { JournalReader } from "../core/journal.ts";
import type { PageLease } from "../core/page-lease.ts";
import type { Position } from "../core/position.ts";
import type { BatchLimits } from "../core/sink.ts";
import type { Chunks } from "./encoded-lines.ts";
import type { Wants } from "./filter.ts";
import type { Misfit } from "./misfits.ts";
import type { LeasedBatch } from "./records.ts";

export interface Formed {
  readonly batch: LeasedBatch | null;
  readonly misfits: readonly Misfit[];
  /** How far the journal was looked through, whether or not anything was taken. */
  readonly to: Position;
  /** False when more events would fit and none are there yet. */
  readonly full: boolean;
  /** When the oldest of them was pulled; for the age of an unfilled batch. */
  readonly oldestMs: number;
  /** Leases on the pages of the misfits; the caller releases them. */
  readonly misfitLeases: readonly PageLease[];
}

export interface Forming {
  readonly reader: JournalReader;
  readonly from: Position;
  readonly limits: BatchLimits;
  readonly recordsMax: number;
  /** The end that was made durable before (R19). */
  readonly bound: Position | undefined;
  /** True: the limits cut the batch within the bound. Otherwise it is exactly up to there, whatever they say now. */
  readonly isCut?: boolean | undefined;
  readonly wants: Wants;
  encode(event: JournalEvent): Uint8Array | string;
  /** As those of formats. `encodeMany` gives what `encode` would give. */
  readonly encodeMany?: Format["encodeMany"] | undefined;
  readonly encodeAhead?: Format["encodeAhead"] | undefined;
  /** True: `encode` gives the bytes of an event that is one line as they are. */
  readonly keepsBytes: boolean;
  /** Memory for the encoded events. Without it each has its own, which the sink may keep. */
  readonly chunks?: Chunks | undefined;
}
