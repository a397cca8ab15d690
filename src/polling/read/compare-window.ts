import type { Gap, NewGap } from "../../core/gap.ts";
import { UNDATED_MS } from "../../core/prepare-page.ts";
import { FIELD, fieldText } from "../../core/scanner.ts";
import type { MissingEvent, PassBegin, Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import type { TimeStretch } from "../plan/sweep-times.ts";
import { identityBytesAt, ownerAt } from "./counts.ts";
import { doubtfulAt, heldAmong, namedGaps } from "./missing-events.ts";
import { createRepeats } from "./repeats.ts";
import { createSeenEvents, type SeenEvents } from "./seen-events.ts";
import { IDENTITY_FIELDS } from "./skip-event.ts";
import { slicesOf } from "./slices.ts";
import { createUndated } from "./undated.ts";
import { pagesOf } from "./walk.ts";

/** So many events are looked for one by one after the read. What lacks more is compared again in any case. */
const DOUBTFUL_MAX = 20_000;

export interface Comparison {
  /** When the first page was asked for. */
  readonly begun: PassBegin;
  /** The service forgot a part before it could be compared. */
  readonly isForgotten: boolean;
  /** Every event with a distinct identity. */
  readonly events: SeenEvents;
  /** Events without an id, one for each owner and time. */
  readonly withoutIds: readonly MissingEvent[];
  /** Events that are not readable. */
  readonly skips: readonly NewGap[];
  /** Events that were not held, or that a gap names. */
  readonly doubtful: readonly MissingEvent[];
  /** The gaps of single events before the comparison. */
  readonly named: readonly Gap[];
  /** Where something is missing, or identities alone do not decide; null: nearly everywhere. */
  readonly slices: readonly TimeStretch[] | null;
}

/** Walks over the identities of a stretch and compares them with what is held. */
export async function compareWindow(
  context: PollContext,
  window: Window,
  stretch: TimeStretch,
  signal: AbortSignal,
): Promise<Comparison> {
  let withoutId = 0;
  const events = createSeenEvents();
  const skips: NewGap[] = [];
  const doubtful: TimeStretch[] = [];
  const missing: MissingEvent[] = [];
  const unsure: MissingEvent[] = [];
  const named = await namedGaps(context, stretch);
  const places = new Set(named.map(({ fromMs }) => fromMs));
  const undated = createUndated(context, stretch, missing);
  let repeats = createRepeats();
  const walk = { stretch, fields: IDENTITY_FIELDS, signal, skips };
  let begun: PassBegin | undefined;
  let isForgotten = false;
  for await (const walked of pagesOf(context, window, walk)) {
    const { page, asked, againMs } = walked;
    begun ??= asked;
    isForgotten = walked.isForgotten;
    if (againMs === stretch.fromMs) {
      // Everything comes again. An event that is missing stays named, also where it does not come again.
      events.clear();
      doubtful.length = 0;
      withoutId = 0;
      repeats = createRepeats();
    } else if (againMs !== undefined) repeats.beginAgain(againMs);
    // An event that only another source has shown is read here too, so that the counts of both have it (R36).
    const held = await context.journal.held(page.organizations, ...spanOf(page.timesMs), window.stream);
    await undated.look(page, doubtful);
    // Identities do not say whether a foreign event is kept apart already: it is read, and kept once (R7).
    for (const timeMs of walked.foreignMs)
      if (timeMs >= stretch.fromMs && timeMs < stretch.toMs)
        doubtful.push({ fromMs: timeMs, toMs: timeMs + 1 });
    for (let index = 0; index < page.scanned.count; index++) {
      const timeMs = page.timesMs[index]!;
      if (timeMs < stretch.fromMs || timeMs >= stretch.toMs) continue;
      // Without an id the identity is made of all the bytes, which are not here; twice the same may be two events (R10).
      const isUnsure = fieldText(page.scanned, index, FIELD.id) === undefined;
      const identity = identityBytesAt(page, index);
      const look = isUnsure ? "first" : repeats.look(timeMs, identity.toString("latin1"));
      const isHeld = isUnsure || held.has(identity);
      if (look === "again") continue;
      if (isUnsure) withoutId++;
      if (look === "first") events.add(timeMs, ownerAt(page, index));
      if (isUnsure || look === "twin" || !isHeld) doubtful.push({ fromMs: timeMs, toMs: timeMs + 1 });
      const isDoubtful = look === "first" && (isUnsure || !isHeld || places.has(timeMs));
      const list = isUnsure ? unsure : missing;
      if (isDoubtful && list.length < DOUBTFUL_MAX) list.push(doubtfulAt(page, index, timeMs));
    }
  }
  undated.end(doubtful);
  const withoutIds = distinctOf(unsure);
  const isHeld = await heldAmong(context, window, withoutIds);
  missing.push(...withoutIds.filter((event) => !isHeld.has(event) || places.has(event.placeMs)));
  const everywhere = withoutId * 4 > events.count && withoutId > 100;
  return {
    events,
    withoutIds,
    skips,
    isForgotten,
    doubtful: distinctOf(missing),
    named,
    begun: begun ?? { begunMs: context.serviceClock.now(), localMs: context.clock.now() },
    slices: everywhere ? null : slicesOf(doubtful),
  };
}

function spanOf(timesMs: Float64Array): [number, number] {
  let [fromMs, toMs] = [Number.POSITIVE_INFINITY, 0];
  for (const timeMs of timesMs) {
    if (timeMs === UNDATED_MS) continue;
    fromMs = Math.min(fromMs, timeMs);
    toMs = Math.max(toMs, timeMs + 1);
  }
  return [fromMs === Number.POSITIVE_INFINITY ? 0 : fromMs, toMs];
}

function distinctOf(events: readonly MissingEvent[]): readonly MissingEvent[] {
  const keyOf = ({ identity, owner, timeMs }: MissingEvent) => identity || `${timeMs} ${owner}`;
  return [...new Map(events.map((event) => [keyOf(event), event])).values()];
}
