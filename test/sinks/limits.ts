import type { JournalEvent } from "../../src/core/event.ts";
import type { Format } from "../../src/core/format.ts";
import type { BatchLimits, Sink } from "../../src/core/sink.ts";
import { makeBatch, makeEvent, rawFormat } from "../support/events.ts";

/** The bytes that delivery counts for a batch of these bodies, as BatchLimits defines them. */
export function measured(limits: BatchLimits, bodies: readonly Uint8Array[]): number {
  const perRecord = limits.recordOverheadBytes ?? 0;
  return bodies.reduce((sum, body) => sum + body.length + perRecord, limits.batchOverheadBytes ?? 0);
}

/**
 * `count` events that the sink encodes to exactly `total` bytes as delivery measures them: the last one is
 * as long as it takes.
 */
export function eventsOfSize(
  sink: Sink,
  count: number,
  total: number,
  format: Format = rawFormat,
): readonly JournalEvent[] {
  const make = (padding: number) =>
    Array.from({ length: count }, (_, at) =>
      paddedEvent(at, Math.floor(padding / count) + (at < padding % count ? 1 : 0)),
    );
  const bodies = makeBatch(sink, make(0), undefined, format).records.map((record) => record.body);
  return make(total - measured(sink.limits, bodies));
}

/** An event whose bytes grow by one for each step of `padding`. */
export function paddedEvent(number: number, padding: number): JournalEvent {
  const id = number.toString(16).padStart(24, "0");
  return makeEvent({
    id,
    index: number,
    bytes: Buffer.from(`{"id":"${id}","padding":"${"x".repeat(padding)}"}`),
  });
}
