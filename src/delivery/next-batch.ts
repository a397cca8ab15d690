import { type Clock, createSteadyTime } from "../core/clock.ts";
import type { DeadLetter, JournalReader } from "../core/journal.ts";
import type { PageLease } from "../core/page-lease.ts";
import { comparePositions, type Position } from "../core/position.ts";
import type { Sink, SinkDefinition } from "../core/sink.ts";
import { formBatch } from "./batching.ts";
import { begunBy, isEqual, isOther, withBegun } from "./begun.ts";
import { type Chunks, chunkBytesFor, createChunks } from "./encoded-lines.ts";
import type { EncodedMemory } from "./encoded-memory.ts";
import { filterOf, type SinkRoute, type Wants } from "./filter.ts";
import type { Formed, Forming } from "./forming.ts";
import type { Opener } from "./opening.ts";
import type { Progress } from "./progress.ts";
import type { LeasedBatch } from "./records.ts";

export interface BatchSource {
  readonly definition: SinkDefinition;
  readonly reader: JournalReader;
  readonly clock: Clock;
  readonly opener: Pick<Opener, "format" | "own">;
  readonly poisonMemory?: boolean | undefined;
  readonly encodedMemory: EncodedMemory;
  readonly wants: Wants;
  readonly route?: SinkRoute | undefined;
  /** True while nothing more will come: an unfilled batch need not wait. */
  draining(): boolean;
  bury(letters: readonly DeadLetter[]): Promise<void>;
}

/** A batch to write; or nothing for this sink up to a position; or nothing to do now. */
export type NextBatch =
  | { readonly kind: "write"; readonly batch: LeasedBatch }
  | { readonly kind: "pass"; readonly to: Position }
  | { readonly kind: "wait"; readonly isEmpty: true }
  | { readonly kind: "wait"; readonly isEmpty: false; readonly forMs: number };

/** Decides what a delivery does next. Events that fit into no batch become dead letters first (R18). */
export function createNextBatch(source: BatchSource) {
  const { definition, opener, reader, clock } = source;
  /** The filter of the batches that another config has begun. */
  let earlier: { readonly route: SinkRoute; readonly wants: Wants } | undefined;
  let chunks: { readonly of: Chunks; readonly chunkBytes: number } | undefined;
  const steadyMs = createSteadyTime(clock);
  /** Since when a batch has been waiting to be filled. */
  let unfilledSinceMs: number | undefined;

  /** Made again when the sink's batches have another size. */
  function chunksFor({ limits }: Sink): Chunks {
    const chunkBytes = chunkBytesFor(limits.bytesMax);
    if (chunks?.chunkBytes !== chunkBytes) {
      const { poisonMemory: poison = false, encodedMemory: memory } = source;
      chunks = { of: createChunks({ chunkBytes, poison, memory }), chunkBytes };
    }
    return chunks.of;
  }

  function formingOf(sink: Sink, progress: Progress, from: Position, bound: Position | undefined): Forming {
    const { limits } = sink;
    const { format } = opener;
    // The bytes go into a chunk at once.
    const encodeShared = format.encodeShared ?? format.encode;
    const wants = wantsOfBatch(bound);
    return {
      reader,
      from,
      limits,
      recordsMax: progress.recordsMax(limits.recordsMax),
      bound,
      isCut: progress.isCut(bound),
      wants: progress.isWhole() ? wants : (event, isOwn) => wants(event, isOwn) && progress.isLeft(event),
      encode: (event) =>
        sink.encode?.(event) ?? ((sink.framed && format.encodeFramed?.(event)) || encodeShared(event)),
      encodeMany: manyOf(sink),
      encodeAhead: format.encodeAhead,
      keepsBytes: format.keepsBytes === true && sink.encode === undefined,
      chunks: chunksFor(sink),
    };
  }

  function manyOf(sink: Sink): Forming["encodeMany"] {
    if (sink.encode !== undefined) return sink.encodeMany;
    const { encodeFramed, encodeMany } = opener.format;
    return sink.framed && encodeFramed !== undefined ? undefined : encodeMany;
  }

  /** How long an unfilled batch still waits, by both clocks: it must not wait longer because they differ. */
  function waitOf(pulledMs: number, ageMsMax: number): number {
    unfilledSinceMs ??= steadyMs();
    return ageMsMax - Math.max(clock.now() - pulledMs, steadyMs() - unfilledSinceMs);
  }

  /** Of a batch whose bounds are open, a part may be stored: it keeps the filter that it was begun with (R19). */
  function wantsOfBatch(bound: Position | undefined): Wants {
    const route = bound && begunBy(reader, definition.type)?.settings.route;
    if (route === undefined || source.route === undefined || isEqual(route, source.route))
      return source.wants;
    if (!isEqual(route, earlier?.route)) earlier = { route, wants: filterOf(route) };
    return earlier!.wants;
  }

  /** The end of the batch after `from`, where it is durable. A sink of another type may have cut it at other places. */
  function boundAfter(from: Position): Position | undefined {
    if (!definition.boundsFirst) return undefined;
    const isAfter = (bound: Position) => comparePositions(bound, from) > 0;
    return begunBy(reader, definition.type)?.bounds.find(isAfter) ?? reader.bounds.find(isAfter);
  }

  /** The bounds of a batch are durable before it is written, with the settings that it is begun with (R19). */
  async function bind(to: Position, { layout }: Sink): Promise<void> {
    if (!definition.boundsFirst) return;
    const held = withBegun(reader, definition.type, to, { layout, route: source.route, ...opener.own });
    if (held !== undefined) await reader.setBounds(held.bounds, held.state);
  }

  /** A type has one durable set of settings at a time, so a batch of others waits until those before it are committed. */
  function waitsForBegun({ layout }: Sink, front: Position): boolean {
    const begun = definition.boundsFirst ? begunBy(reader, definition.type) : undefined;
    if (begun === undefined || comparePositions(front, begun.to) < 0) return false;
    return isOther(begun.settings, { layout, route: source.route, ...opener.own });
  }

  /** Events that fit into no batch become dead letters with the batch around them, and once: later looks pass over them. */
  async function bury({ misfits, misfitLeases }: Formed, progress: Progress): Promise<void> {
    try {
      if (misfits.length > 0) await source.bury(misfits);
      progress.leaveOut(misfits.map(({ event }) => event));
    } finally {
      release(misfitLeases);
    }
  }

  /** 0: it need not wait. */
  function waitMsOf({ batch, full, oldestMs }: Formed, sink: Sink, isBound: boolean): number {
    const isUnfilled = batch !== null && !full && !isBound && !source.draining();
    return isUnfilled ? waitOf(oldestMs, sink.limits.ageMsMax) : 0;
  }

  async function decide(
    formed: Formed,
    {
      sink,
      progress,
      from,
      isBound,
      isAhead,
    }: { sink: Sink; progress: Progress; from: Position; isBound: boolean; isAhead: boolean },
  ): Promise<NextBatch> {
    const { batch } = formed;
    const forMs = waitMsOf(formed, sink, isBound);
    if (forMs > 0) {
      release(formed.misfitLeases);
      return { kind: "wait", isEmpty: false, forMs };
    }
    await bury(formed, progress);
    if (batch === null) {
      if (formed.to === from) return { kind: "wait", isEmpty: true };
      // The next batch begins here, also when it is formed again before this is committed.
      if (isAhead) await bind(formed.to, sink);
      return { kind: "pass", to: formed.to };
    }
    unfilledSinceMs = undefined;
    await bind(batch.to, sink);
    return { kind: "write", batch };
  }

  /** `front` is the end of the newest batch in flight, where there is one. */
  return async (sink: Sink, progress: Progress, front: Position | undefined): Promise<NextBatch> => {
    const from = front ?? progress.at;
    if (front !== undefined && waitsForBegun(sink, front)) return { kind: "wait", isEmpty: true };
    // Only the first batch after an error repeats an earlier one.
    const again = front === undefined ? progress.againTo : undefined;
    const bound = boundAfter(from) ?? again;
    const formed = await formBatch(formingOf(sink, progress, from, bound));
    let next: NextBatch | undefined;
    try {
      next = await decide(formed, {
        ...{ sink, progress, from, isBound: bound !== undefined, isAhead: front !== undefined },
      });
      return next;
    } finally {
      if (next?.kind !== "write") release(formed.batch?.leases ?? []);
    }
  };
}

export function release(leases: readonly PageLease[]): void {
  for (const lease of leases) lease.release();
}
