import type { EventGroup, RecipePart } from "../../core/recipe-engine.ts";

/** A marker in an output, and what it stands for. */
export interface MarkerPlace {
  readonly from: number;
  readonly to: number;
  readonly part: RecipePart;
}

export interface MarkedOutput {
  readonly text: string;
  /** In their order. */
  readonly places: readonly MarkerPlace[];
}

/**
 * A literal text, or the number of a part: a slice that is not in a group counts from 0 among all such slices, a slice
 * in a group counts from GROUP_SLICE, a special value down from -1. The numbers do not depend on how many slices the
 * groups have.
 */
export type OutputToken = string | number;

export const GROUP_SLICE = 1000;

/** The text that the groups add to the output between two neighbouring markers of the rest. */
export interface Insertion {
  /** The gap between the markers: 0 is before the first one. */
  readonly gap: number;
  /** The added text can be said to begin at any of these places in the gap; which one does not change the output. */
  readonly low: number;
  readonly high: number;
  /** The added text if it begins there; undefined where that would cut a marker. */
  tokensAt(offset: number): readonly OutputToken[] | undefined;
}

/** An output in two factors: what it is without the groups, and what these add. */
export interface Factors {
  /** The literal texts around the markers of the rest, one more than markers. */
  readonly gaps: readonly string[];
  readonly markers: readonly number[];
  readonly insertions: readonly Insertion[];
}

/**
 * Compares the output with that of the same event without its groups. Undefined if the groups do anything else to
 * it than adding text.
 */
export function factorsOf(
  whole: MarkedOutput,
  rest: MarkedOutput,
  groups: readonly EventGroup[],
): Factors | undefined {
  const number = numbering(groups);
  const own = whole.places.filter(({ part }) => number(part) < GROUP_SLICE);
  if (own.length !== rest.places.length) return undefined;
  const markers = own.map(({ part }) => number(part));
  if (rest.places.some(({ part }, at) => number(part) !== markers[at])) return undefined;
  const gaps: string[] = [];
  const insertions: Insertion[] = [];
  for (let gap = 0; gap <= own.length; gap++) {
    const from = own[gap - 1]?.to ?? 0;
    const text = whole.text.slice(from, own[gap]?.from);
    const before = rest.text.slice(rest.places[gap - 1]?.to ?? 0, rest.places[gap]?.from);
    gaps.push(before);
    if (text === before) continue;
    const length = text.length - before.length;
    const low = before.length - commonEnd(text, before);
    const high = commonStart(text, before);
    if (length <= 0 || low > high) return undefined;
    const tokensAt = (offset: number) => tokensIn(whole, from + offset, from + offset + length, number);
    insertions.push({ gap, low, high, tokensAt });
  }
  return { gaps, markers, insertions };
}

type Numbering = (part: RecipePart) => number;

function numbering(groups: readonly EventGroup[]): Numbering {
  return (part) => {
    if (part.kind === "special") return -1 - part.index;
    if (part.kind !== "slice") return NaN;
    let inGroups = 0;
    for (const { firstSlice, slices } of groups) {
      if (part.index < firstSlice) break;
      if (part.index < firstSlice + slices) return GROUP_SLICE + inGroups + part.index - firstSlice;
      inGroups += slices;
    }
    return part.index - inGroups;
  };
}

/** The token as a part of a template or of an added text. */
export function partOf(token: OutputToken): RecipePart {
  if (typeof token === "string") return { kind: "literal", bytes: Buffer.from(token) };
  if (token < 0) return { kind: "special", index: -1 - token };
  return token < GROUP_SLICE ? { kind: "main", index: token } : { kind: "group", index: token - GROUP_SLICE };
}

function tokensIn(
  { text, places }: MarkedOutput,
  from: number,
  to: number,
  number: Numbering,
): readonly OutputToken[] | undefined {
  const tokens: OutputToken[] = [];
  let at = from;
  for (const place of places) {
    if (place.to <= from || place.from >= to) continue;
    if (place.from < from || place.to > to) return undefined;
    if (place.from > at) tokens.push(text.slice(at, place.from));
    tokens.push(number(place.part));
    at = place.to;
  }
  if (to > at) tokens.push(text.slice(at, to));
  return tokens;
}

function commonStart(a: string, b: string): number {
  let length = 0;
  while (length < b.length && a[length] === b[length]) length++;
  return length;
}

function commonEnd(a: string, b: string): number {
  let length = 0;
  while (length < b.length && a[a.length - 1 - length] === b[b.length - 1 - length]) length++;
  return length;
}
