import type { z } from "zod";
import type { Clock } from "./clock.ts";
import type { JournalEvent } from "./event.ts";
import type { Format } from "./format.ts";
import type { Lines } from "./journal.ts";
import type { Log } from "./log.ts";
import type { Position } from "./position.ts";
import type { SinkState } from "./sink-state.ts";

export type { SinkState };

/** One event as it goes to the destination: `body` is what `encode` gave. */
export interface SinkRecord {
  readonly event: JournalEvent;
  readonly body: Uint8Array;
  /** The size of the body in bytes. */
  readonly size: number;
}

/** Neighbours in a page whose records are the very bytes of their events. */
export interface Stretch {
  readonly lines: Lines;
  readonly from: number;
  /** The index after the last. */
  readonly to: number;
}

/** Events from the journal for one write, already filtered and encoded. Never empty. */
export interface Batch {
  /** Where there are stretches, made when they are first asked for. */
  readonly records: readonly SinkRecord[];
  /** The same events without an object for each, where all go out as the bytes they are. */
  readonly stretches?: readonly Stretch[] | undefined;
  /** The position before the first and after the last record; passed-over events lie inside. */
  readonly from: Position;
  readonly to: Position;
}

/** How many records a batch has, and the bytes of their bodies; makes none. */
export function totalsOf(batch: Batch): { readonly count: number; readonly bytes: number } {
  let count = 0;
  let bytes = 0;
  if (batch.stretches === undefined) {
    count = batch.records.length;
    for (let index = 0; index < count; index++) bytes += batch.records[index]!.size;
    return { count, bytes };
  }
  for (const { lines, from, to } of batch.stretches) {
    count += to - from;
    bytes += lines.size(from, to) - (to - from);
  }
  return { count, bytes };
}

/** The size of each record's body; makes no record. */
export function bodySizesOf(batch: Batch): number[] {
  const { stretches } = batch;
  if (stretches === undefined) return batch.records.map(({ size }) => size);
  const sizes: number[] = [];
  for (const { lines, from, to } of stretches)
    for (let index = from; index < to; index++) sizes.push(lines.size(index, index + 1) - 1);
  return sizes;
}

/** Delivery forms batches within these; a record that alone exceeds them becomes a dead letter. */
export interface BatchLimits {
  readonly recordsMax: number;
  /** Over all bodies, with `recordOverheadBytes` added for each and `batchOverheadBytes` once. */
  readonly bytesMax: number;
  /** The limit of one body, without its overhead. */
  readonly recordBytesMax?: number;
  readonly recordOverheadBytes?: number;
  readonly batchOverheadBytes?: number;
  /** What limits the bytes where it is not the destination: an option of the sink, or Tidemark itself. Dead letters name it. */
  readonly limitedBy?: "Tidemark" | "batchBytesMax" | "messageBytesMax" | "objectBytesMax";
  /** A batch of encoded events may end with so many bytes while all sinks together hold much memory. */
  readonly bytesEnough?: number;
  /** How long an unfilled batch may wait for more events; 0: never wait. */
  readonly ageMsMax: number;
}

/**
 * A destination, opened. Calls never overlap, except writes where `writesMax` allows it. `write` resolves once the batch
 * is durable there (or as durable as the destination can promise); only then is the position committed, and the memory
 * of the batch's events is reused: a sink copies what it needs for longer. It throws one of the four errors of
 * errors.ts; an abort of the signal makes it reject promptly with the signal's reason.
 */
export interface Sink {
  /** The position that the destination itself stores, where it can; read once after opening. */
  readonly position?: Position | undefined;
  readonly limits: BatchLimits;
  /** True: the destination keeps records apart itself, so a body may have line breaks. */
  readonly framed?: boolean;
  /**
   * Writes that may be in flight at once; 1 unless stated. They begin in the order of the batches, and positions are
   * committed in that order. When one fails, none is begun until all others have ended.
   */
  readonly writesMax?: number;
  /**
   * Decides under which names a batch is stored. It is durable with a batch's bounds (`boundsFirst`); a batch that
   * another config has begun is `SinkContext.unfinished`. JSON.
   */
  readonly layout?: SinkState;
  /** The body of one record, framing excluded; the next call may overwrite it. Default: the format's bytes. Pure. */
  encode?(event: JournalEvent): Uint8Array | string;
  /** As `encodeMany` of formats, for a sink with `encode`: each line is what that gives. */
  encodeMany?: Format["encodeMany"];
  write(batch: Batch, signal: AbortSignal): Promise<SinkState | undefined>;
  close(): Promise<void>;
}

export interface SinkProblem {
  readonly message: string;
  readonly remedy: string;
}

export interface SinkContext<Config> {
  readonly name: string;
  readonly config: Config;
  readonly format: Format;
  /** The id of the journal that feeds this sink. */
  readonly journal: string;
  /** Journals that this one continues: everything in them was delivered before their state was split or merged. */
  readonly earlierJournals?: ReadonlySet<string> | undefined;
  /** The position and state last committed in the journal; undefined before the first commit. */
  readonly position: Position;
  readonly state: SinkState | undefined;
  /** The layout for all batches up to a position: they were begun with it, and some of them may be stored. */
  readonly unfinished?: { readonly to: Position; readonly layout: SinkState } | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Kept by delivery from one opening of the sink to the next; gone with the process. */
  readonly memory?: Map<string, unknown> | undefined;
  /** Reports that the sink works, but not as configured; undefined: it does again. */
  readonly limited?: ((problem: SinkProblem | undefined) => void) | undefined;
  /** Says what the opening or the writes wait for from now on ("the brokers"); it is shown when they take long. */
  readonly waitsFor?: ((what: string) => void) | undefined;
  /** The program's standard output, for a sink that writes there. */
  readonly stdout?: NodeJS.WritableStream | undefined;
}

/**
 * A sink as its file gives it. Every field of `config` has a description (`.meta({ description })`).
 * The common fields (name, type, format, only, except, start) are added by the config part.
 */
export interface SinkDefinition<Config = unknown> {
  readonly type: string;
  readonly summary: string;
  readonly config: z.ZodObject;
  /** The format that is used when the config names none. */
  readonly defaultFormat: string;
  /**
   * exactly_once: after any error in `write` and after a failed position commit the sink is closed and
   * opened again, and continues from the position that it then reports (R17). at_least_once: the same batch again.
   */
  readonly guarantee: "exactly_once" | "at_least_once";
  /** The guarantee in one sentence, for the documentation. */
  readonly promise: string;
  /** The promise under this config, where it differs from `promise`. */
  promiseOf?(config: Config): string | undefined;
  /** The containers of formats that this sink can write; none where it is left out. */
  readonly containers?: readonly NonNullable<Format["container"]>[];
  /** True: it writes nothing but these containers. */
  readonly containersOnly?: boolean;
  /** True: a batch's bounds are durable before `write`, and a retry takes exactly those (R19). */
  readonly boundsFirst?: boolean;
  /** A request is taken whole or not at all: after a refusal nothing of its batch is stored. */
  readonly refusesWhole?: boolean;
  /**
   * With `boundsFirst`: fields of the config that decide the bytes of a batch. A batch that was begun keeps them, as it
   * keeps its format.
   */
  readonly batchFields?: readonly string[];
  open(context: SinkContext<Config>): Promise<Sink>;
  /**
   * The config of one of several shards that share it: names that two processes must not share get the label.
   * Absent where the destination keeps journals apart by itself.
   */
  ofShard?(config: Config, label: string, sink: string): Config;
  /**
   * The check of `check --online`. It writes nothing at the destination, takes nothing from a process that is
   * delivering, and needs no lock. It resolves to remarks (a wrong clock, a right that cannot be checked), and
   * rejects with the error that opening or writing would meet: a missing topic, index, bucket or permission.
   */
  probe?(context: SinkContext<Config>): Promise<readonly string[]>;
  /** Warnings that follow from the config alone, such as a backfill that the destination would drop. */
  advise?(config: Config): readonly string[];
}

export function defineSink<Schema extends z.ZodObject>(
  definition: Omit<SinkDefinition<z.output<Schema>>, "config"> & { readonly config: Schema },
): SinkDefinition {
  // The config is parsed by this very schema before `open` sees it, so the wider type is safe.
  return definition as unknown as SinkDefinition;
}
