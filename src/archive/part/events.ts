import type { JournalEvent } from "../../core/event.ts";
import { heldEvents } from "../../core/held-event.ts";
import type { Range } from "./range.ts";

const BATCH_EVENTS = 500;
const BATCH_BYTES = 4_000_000;

/**
 * The events of a range with their ids and identities as the journal and search have them (A11); null for an erased
 * one. They are scanned in batches: one at a time would take ten times as long.
 */
export async function* archivedEvents(
  range: Range,
  organization: string,
): AsyncGenerator<{ readonly index: number; readonly event: JournalEvent | null }> {
  let batch: { index: number; slice: Buffer | null }[] = [];
  let bytes = 0;
  for await (const one of range.slices()) {
    batch.push(one);
    bytes += one.slice?.length ?? 0;
    if (batch.length < BATCH_EVENTS && bytes < BATCH_BYTES) continue;
    yield* scanned(batch, organization);
    batch = [];
    bytes = 0;
  }
  yield* scanned(batch, organization);
}

function* scanned(batch: readonly { index: number; slice: Buffer | null }[], organization: string) {
  const events = heldEvents(
    organization,
    batch.flatMap(({ slice }) => (slice === null ? [] : [slice])),
  ).values();
  for (const { index, slice } of batch) yield { index, event: slice === null ? null : events.next().value! };
}
