import type { JournalEvent } from "../../core/event.ts";
import { type EventSlice, type RecipePart, SPECIAL } from "../../core/recipe-engine.ts";
import { timestampMsOf } from "../../core/time.ts";
import { createMarkers, type Markers } from "./markers.ts";

export type Encode = (event: JournalEvent) => string;

/** Shorter markers could occur by chance. */
const MARKER_LENGTH_MIN = 10;

/**
 * Finds out how the converter makes its output for an event. It converts a copy whose slices are replaced by
 * markers, and looks for the markers in the output. Undefined if the output cannot be made by copying, or if two
 * copies with different markers disagree.
 */
export function learn(
  event: JournalEvent,
  slices: readonly EventSlice[],
  encode: Encode,
): RecipePart[] | undefined {
  const original = Buffer.from(event.bytes.buffer, event.bytes.byteOffset, event.bytes.length);
  const markers = createMarkers();
  const first = attempt(event, slices, { original, markers, encode });
  if (first === undefined) return undefined;
  const second = attempt(event, slices, { original, markers, encode });
  return second !== undefined && areSame(first, second) ? first : undefined;
}

interface Marked {
  readonly event: JournalEvent;
  /** By the text to look for in the output. */
  readonly parts: ReadonlyMap<string, RecipePart>;
}

interface Attempt {
  readonly original: Buffer;
  readonly markers: Markers;
  readonly encode: Encode;
}

function attempt(
  event: JournalEvent,
  slices: readonly EventSlice[],
  { original, markers, encode }: Attempt,
): RecipePart[] | undefined {
  const marked = mark(event, slices, original, markers);
  if (marked === undefined) return undefined;
  for (const marker of marked.parts.keys())
    if (marker.length < MARKER_LENGTH_MIN || original.includes(marker)) return undefined;
  return partsOf(encode(marked.event), marked.parts);
}

/** Equal texts that are compared get equal markers; every other slice gets its own. */
function mark(
  event: JournalEvent,
  slices: readonly EventSlice[],
  source: Buffer,
  { markerFor, timeMs, identity }: Markers,
): Marked | undefined {
  const parts = new Map<string, RecipePart>();
  const compared = new Map<string, string>();
  const pieces: Buffer[] = [];
  let timestamp: string | undefined;
  let at = 0;
  const organization = event.organization === null ? null : markerFor(event.organization, "compared", true);
  if (event.organization !== null) compared.set(event.organization, organization!);
  slices.forEach(({ start, end, kind }, index) => {
    const text = source.toString("utf8", start, end);
    const isQuoted = source[start - 1] === 0x22;
    const isCompared = kind === "compared" || kind === "email" || kind === "address";
    const marker = (isCompared && compared.get(text)) || markerFor(text, kind, isQuoted);
    if (isCompared) compared.set(text, marker);
    if (kind === "time") timestamp = marker;
    if (!parts.has(marker)) parts.set(marker, { kind: "slice", index });
    pieces.push(source.subarray(at, start), Buffer.from(marker));
    at = end;
  });
  // Texts that differ in case alone would need markers that do so too.
  const lower = new Set([...compared.keys()].map((text) => text.toLowerCase()));
  if (lower.size < compared.size) return undefined;
  const bytes = Buffer.concat([...pieces, source.subarray(at)]);
  const copy: JournalEvent = {
    ...plain(event),
    bytes,
    size: bytes.length,
    organization,
    timestamp: timestamp ?? event.timestamp,
    timestampMs: (timestamp && timestampMsOf(timestamp)) || timeMs(),
    id: event.id === undefined ? undefined : (compared.get(event.id) ?? event.id),
    identity: identity(),
    fetchedAtMs: timeMs(),
  };
  specialsOf(copy).forEach((text, index) => {
    if (text !== "") parts.set(text, { kind: "special", index });
  });
  return { event: copy, parts };
}

/** Values of an event that are not in its bytes, by their index in SPECIAL. */
export function specialsOf(event: JournalEvent): readonly string[] {
  const { organization, identity, timestampMs, fetchedAtMs } = event;
  const specials: string[] = [];
  specials[SPECIAL.organization] = organization ?? "";
  specials[SPECIAL.identity] = identity;
  specials[SPECIAL.timestampMs] = String(timestampMs);
  specials[SPECIAL.fetchedAtMs] = String(fetchedAtMs);
  specials[SPECIAL.fetchedAt] = new Date(fetchedAtMs).toISOString();
  return specials;
}

/** Events of the journal compute their fields when they are read. */
function plain(event: JournalEvent) {
  const { account, provider, service, eventType, correlationId, page, index } = event;
  return { account, provider, service, eventType, correlationId, page, index };
}

/** Cuts the output at its markers. */
function partsOf(output: string, markers: ReadonlyMap<string, RecipePart>): RecipePart[] {
  const places: { from: number; to: number; part: RecipePart }[] = [];
  for (const [marker, part] of markers)
    for (let from = output.indexOf(marker); from >= 0; from = output.indexOf(marker, from + marker.length))
      places.push({ from, to: from + marker.length, part });
  places.sort((a, b) => a.from - b.from);
  const parts: RecipePart[] = [];
  let at = 0;
  const literal = (to: number) => {
    if (to > at) parts.push({ kind: "literal", bytes: Buffer.from(output.slice(at, to)) });
  };
  for (const { from, to, part } of places) {
    literal(from);
    parts.push(part);
    at = to;
  }
  literal(output.length);
  return parts;
}

function areSame(a: readonly RecipePart[], b: readonly RecipePart[]): boolean {
  return a.length === b.length && a.every((part, index) => isSame(part, b[index]!));
}

function isSame(a: RecipePart, b: RecipePart): boolean {
  if (a.kind === "literal") return b.kind === "literal" && Buffer.compare(a.bytes, b.bytes) === 0;
  return a.kind === b.kind && a.index === b.index;
}
