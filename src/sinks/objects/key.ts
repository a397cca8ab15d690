import { DecisionNeededError } from "../../core/errors.ts";
import { encodeName } from "../../core/names.ts";
import { formatPosition, type Position } from "../../core/position.ts";
import type { Batch, SinkRecord } from "../../core/sink.ts";
import { DIGEST, EVENTS_DIGEST } from "./store.ts";

/** The key depends on the bounds alone: the same batch has the same key whenever it is formed (R19, R26). */
export function keyOf(
  names: { readonly prefix: string; readonly sink: string; readonly extension: string },
  batch: Batch,
  partition: string | undefined,
  first = 0,
): string {
  const { prefix, extension } = names;
  const [sink, journal] = [encodeName(names.sink), encodeName(batch.from.journal)];
  // A piece of an object that was too large is named after its first record.
  const piece = first === 0 ? "" : `+${String(first).padStart(6, "0")}`;
  const bounds = `${place(batch.from)}-${place(batch.to)}${piece}.${extension}`;
  return partition === undefined
    ? `${prefix}${sink}/${journal}/${bounds}`
    : `${prefix}${partition}/${sink}.${journal}.${bounds}`;
}

function place({ page, event }: Position): string {
  return `${String(page).padStart(12, "0")}.${String(event).padStart(6, "0")}`;
}

/**
 * The records of a batch by partition, in the order of their first record. Bounds are durable before `write`,
 * so the same batch always gives the same parts under the same keys.
 */
export function partsBy(
  records: readonly SinkRecord[],
  partitionOf: ((record: SinkRecord) => string) | undefined,
): ReadonlyMap<string | undefined, readonly SinkRecord[]> {
  if (partitionOf === undefined) return new Map([[undefined, records]]);
  const parts = new Map<string, SinkRecord[]>();
  for (const record of records) {
    const partition = partitionOf(record);
    const part = parts.get(partition);
    if (part) part.push(record);
    else parts.set(partition, [record]);
  }
  return parts;
}

export function metadataOf(
  batch: Batch,
  events: number,
  digest: string,
  eventsDigest: string,
): Readonly<Record<string, string>> {
  return {
    [DIGEST]: digest,
    [EVENTS_DIGEST]: eventsDigest,
    "tidemark-events": String(events),
    "tidemark-from": formatPosition(batch.from),
    "tidemark-to": formatPosition(batch.to),
  };
}

export function foreignObject(bucket: string, key: string, sink: string): DecisionNeededError {
  const goOn = `then \`tidemark sinks resume ${sink} --from state\` or a restart`;
  return new DecisionNeededError(
    `${bucket}/${key} exists with other content than these events: it was written from another state of this journal, or with another filter.`,
    [
      `Move the object away, ${goOn}: the sink writes its own, with the same events where the state was restored from an older copy`,
      `Give the sink another prefix, then run \`tidemark sinks resume ${sink} --from state\` and restart: nothing that exists is touched, what was delivered since the copy is there twice`,
      "Restore the newest state file, or the filters that it was written with",
    ],
  );
}
