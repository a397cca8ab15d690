import type { JournalEvent } from "../../core/event.ts";
import { type EventGroup, type EventSlice, type RecipePart, SPECIAL } from "../../core/recipe-engine.ts";
import { timestampMsOf } from "../../core/time.ts";
import { type Factors, factorsOf, type MarkedOutput, type MarkerPlace } from "./factors.ts";
import type { createLists } from "./lists.ts";
import { createMarkers, createRandom, type Markers, WORD_LENGTH } from "./markers.ts";

export type Encode = (event: JournalEvent) => string;

/** Shorter markers could occur by chance. */
const MARKER_LENGTH_MIN = 10;

export interface LearnedRecipe {
  readonly parts: readonly RecipePart[];
  /** What the groups of the event add to the output, and the rest; undefined where they cannot be told apart. */
  readonly factors: Factors | undefined;
}

/**
 * Finds out how the converter makes its output for an event. It converts a copy whose slices are replaced by
 * markers, and looks for the markers in the output. `encode` marks the lists that depend on the changes. Gives undefined
 * if the output cannot be made by copying. The caller
 * compares the recipe with the converter on the event itself, whose values all differ from the markers.
 */
export function createLearner(encode: Encode, lists: Pick<ReturnType<typeof createLists>, "markers">) {
  const random = createRandom();
  return (
    event: JournalEvent,
    slices: readonly EventSlice[],
    groups: readonly EventGroup[],
  ): LearnedRecipe | undefined => {
    const { buffer, byteOffset, length } = event.bytes;
    const text = Buffer.from(buffer, byteOffset, length).toString("latin1");
    const markers = createMarkers(random);
    const marked = mark(event, slices, groups, text, markers);
    if (marked === undefined || text.includes(markers.prefix)) return undefined;
    for (const marker of marked.parts.keys()) if (marker.length < MARKER_LENGTH_MIN) return undefined;
    const { words, others } = sorted(marked.parts, markers.prefix);
    for (const [marker] of others) if (text.includes(marker)) return undefined;
    const outputOf = (copy: JournalEvent): MarkedOutput => {
      const output = encode(copy);
      const texts = [...others, ...lists.markers()];
      const places = [...wordsIn(output, words, markers.prefix), ...othersIn(output, texts)];
      return { text: output, places: places.sort((a, b) => a.from - b.from) };
    };
    const whole = outputOf(marked.event);
    const factors = marked.withoutGroups && factorsOf(whole, outputOf(marked.withoutGroups), groups);
    return { parts: partsOf(whole), factors };
  };
}

interface Marked {
  readonly event: JournalEvent;
  /** The same event without its groups. */
  readonly withoutGroups: JournalEvent | undefined;
  /** By the text to look for in the output. */
  readonly parts: ReadonlyMap<string, RecipePart>;
}

interface Word {
  readonly marker: string;
  /** How much of the marker is before its first word. */
  readonly before: number;
  readonly part: RecipePart;
}

/** Most markers have a word. All words begin alike, so one pass over the output finds them; the others need one each. */
function sorted(parts: Marked["parts"], prefix: string) {
  const words = new Map<string, Word>();
  const others: (readonly [string, RecipePart])[] = [];
  for (const [marker, part] of parts) {
    const before = marker.indexOf(prefix);
    if (before < 0) others.push([marker, part]);
    else words.set(marker.slice(before, before + WORD_LENGTH), { marker, before, part });
  }
  return { words, others };
}

function* wordsIn(output: string, words: ReadonlyMap<string, Word>, prefix: string): Iterable<MarkerPlace> {
  for (let at = output.indexOf(prefix); at >= 0; ) {
    const word = words.get(output.slice(at, at + WORD_LENGTH));
    let to = at + prefix.length;
    if (word !== undefined && output.startsWith(word.marker, at - word.before)) {
      const from = at - word.before;
      to = from + word.marker.length;
      yield { from, to, part: word.part };
    }
    at = output.indexOf(prefix, to);
  }
}

function* othersIn(
  output: string,
  others: readonly (readonly [string, RecipePart])[],
): Iterable<MarkerPlace> {
  for (const [marker, part] of others)
    for (let from = output.indexOf(marker); from >= 0; from = output.indexOf(marker, from + marker.length))
      yield { from, to: from + marker.length, part };
}

/**
 * Equal texts that are compared get equal markers; every other slice gets its own. All texts here are bytes as
 * latin1, so that places in the event are places in the text.
 */
function mark(
  event: JournalEvent,
  slices: readonly EventSlice[],
  groups: readonly EventGroup[],
  source: string,
  { markerFor, timeMs, identity }: Markers,
): Marked | undefined {
  const parts = new Map<string, RecipePart>();
  const compared = new Map<string, string>();
  let timestamp: string | undefined;
  const organization = event.organization === null ? null : markerFor(event.organization, "compared", true);
  if (event.organization !== null) compared.set(latin1Of(event.organization), organization!);
  const replaced = slices.map(({ start, end, kind }, index): Replaced => {
    const text = source.slice(start, end);
    const isCompared = kind === "compared" || kind === "email" || kind === "address";
    const marker = (isCompared && compared.get(text)) || markerFor(text, kind, source[start - 1] === '"');
    if (isCompared) compared.set(text, marker);
    if (kind === "time") timestamp = marker;
    const found = utf8Of(marker);
    if (!parts.has(found)) parts.set(found, { kind: "slice", index });
    return { start, end, marker };
  });
  // Texts that differ in case alone would need markers that do so too.
  const lower = new Set([...compared.keys()].map((text) => text.toLowerCase()));
  if (lower.size < compared.size) return undefined;
  // An id that the bytes write differently, with an escape, has no marker: its copies would become literals.
  const id = event.id === undefined ? undefined : compared.get(latin1Of(event.id));
  if (id === undefined && event.id !== undefined) return undefined;
  const fields = {
    ...plain(event),
    organization,
    timestamp: timestamp ?? event.timestamp,
    timestampMs: (timestamp && timestampMsOf(timestamp)) || timeMs(),
    id,
    identity: identity(),
    fetchedAtMs: timeMs(),
  };
  const copyWith = (places: readonly Replaced[]): JournalEvent => {
    const bytes = Buffer.from(replace(source, places), "latin1");
    return { ...fields, bytes, size: bytes.length };
  };
  const copy = copyWith(replaced);
  specialsOf(copy).forEach((text, index) => {
    if (text !== "") parts.set(text, { kind: "special", index });
  });
  const rest = groups.length > 0 && withoutGroups(replaced, groups, source);
  return { event: copy, withoutGroups: rest ? copyWith(rest) : undefined, parts };
}

interface Replaced {
  readonly start: number;
  readonly end: number;
  readonly marker: string;
}

function replace(source: string, places: readonly Replaced[]): string {
  let text = "";
  let at = 0;
  for (const { start, end, marker } of places) {
    text += source.slice(at, start) + marker;
    at = end;
  }
  return text + source.slice(at);
}

/** Replaces each group, with the comma before it, by nothing. */
function withoutGroups(
  replaced: readonly Replaced[],
  groups: readonly EventGroup[],
  source: string,
): readonly Replaced[] | undefined {
  const rest = [...replaced];
  for (const { start, end, firstSlice, slices } of groups.toReversed()) {
    if (source[start - 1] !== ",") return undefined;
    rest.splice(firstSlice, slices, { start: start - 1, end, marker: "" });
  }
  return rest;
}

const ASCII = /^[\0-\x7f]*$/;

function latin1Of(text: string): string {
  return ASCII.test(text) ? text : Buffer.from(text).toString("latin1");
}

function utf8Of(bytes: string): string {
  return ASCII.test(bytes) ? bytes : Buffer.from(bytes, "latin1").toString("utf8");
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
function partsOf({ text, places }: MarkedOutput): RecipePart[] {
  const parts: RecipePart[] = [];
  let at = 0;
  const literal = (to: number) => {
    if (to > at) parts.push({ kind: "literal", bytes: Buffer.from(text.slice(at, to)) });
  };
  for (const { from, to, part } of places) {
    literal(from);
    parts.push(part);
    at = to;
  }
  literal(text.length);
  return parts;
}
