import { PROCESS_SEED } from "./process-seed.ts";
import type { ReadKind, Reads } from "./reads.ts";
import { createManyConverter, type ManyConverter, putAscii } from "./recipe-many.ts";
import { KINDS, openRecipeModule } from "./recipe-module.ts";

/** A slice of the event that a recipe may copy, without the quotes of a string. */
export interface EventSlice {
  readonly start: number;
  readonly end: number;
  /** "run": neighbouring members that no converter reads. */
  readonly kind: ReadKind | "run";
}

/** A member of the event whose path is a group of `Reads`, from its key on, and its slices. */
export interface EventGroup {
  readonly start: number;
  readonly end: number;
  readonly firstSlice: number;
  readonly slices: number;
}

/**
 * A recipe writes its parts one after the other. A template is a recipe for an event without its groups: `insert` is
 * a place where these add text, and `main` a slice by its number among those outside of groups. Added texts are recipes
 * for groups: `group` is a slice by its number among those in groups, and `end` ends the text for one place.
 */
export type RecipePart =
  | { readonly kind: "literal"; readonly bytes: Uint8Array }
  | { readonly kind: "slice" | "special" | "main" | "group"; readonly index: number }
  | { readonly kind: "insert" | "end" };

/**
 * What a recipe is for: the last event's fingerprint, that without groups, its groups in templates of a family, or a list
 * for its changes, as one literal. Texts of one family have numbers below 64.
 */
export type RecipeFor =
  | "event"
  | { readonly list: number }
  | { readonly template: number }
  | { readonly addedTo: number; readonly number: number };

/** Values of an event that are not in its bytes, by their index. */
export const SPECIAL = {
  organization: 0,
  identity: 1,
  timestampMs: 2,
  fetchedAtMs: 3,
  fetchedAt: 4,
} as const;

/** Specials from here on are lists of effects or privileges: texts that depend on the changes of an event. */
export const FIRST_LIST = 8;

/**
 * - a number: so many converted bytes are in `out`
 * - no_list: the text of a list is not known for these changes
 * - unknown: there is no recipe for its fingerprint yet
 * - dropped: its fingerprint has no recipe and gets none
 * - not_canonical: JSON.stringify would write the event differently, or it is too large or too deep
 */
export type Conversion = number | "unknown" | "dropped" | "not_canonical" | "no_list";

/** Makes the fingerprint of an event and converts it by its recipe, in WebAssembly. */
export interface RecipeEngine extends ManyConverter {
  /** Part of every fingerprint: values that are the same for many events and part of their output. */
  setSalt(text: string): void;
  /** Every special value but the timestamp, which `convert` takes. */
  setSpecial(index: number, text: string): void;
  convert(event: Uint8Array, timestampMs: number): Conversion;
  /** Converts the last event once more, after a recipe was added. */
  convertAgain(): Conversion;
  /** Whether the last conversion was by a template and added texts. */
  isComposed(): boolean;
  /**
   * The event that was not canonical just now, with its numbers as JSON.stringify writes them. Undefined where that
   * takes a parser.
   */
  canonical(event: Uint8Array): Buffer | undefined;
  /** The converted bytes; the next conversion overwrites them. */
  out(length: number): Buffer;
  /** Whether to compare the last conversion with the converter. */
  isCheckDue(): boolean;
  /** Whether the last event, of this length, has bytes outside ASCII. */
  isWide(length: number): boolean;
  fingerprint(): string;
  /** The fingerprint without the groups, and what the groups add to it. */
  mainFingerprint(): string;
  variant(): string;
  slices(): readonly EventSlice[];
  groups(): readonly EventGroup[];
  /** Makes a recipe. Without parts, what it is for is dropped: the last event's fingerprint gets no recipe any more. */
  add(parts: readonly RecipePart[], what?: RecipeFor): void;
  has(what: RecipeFor): boolean;
  readonly recipes: number;
}

const PART_KINDS = { literal: 0, slice: 1, special: 2, main: 3, insert: 4, group: 5, end: 6 } as const;
const HEADER_BYTES = 24;
const PART_BYTES = 12;
const SLICE_NUMBERS = 4;
const GROUP_NUMBERS = 4;
/** At either limit the recipes that were used least are forgotten, down to this share. */
const RECIPES_MAX = 4096;
const RECIPE_BYTES_MAX = 16_777_216;
const KEPT_SHARE = 0.75;
const PADDING_BYTES = 64;
/** The event that a recipe was learned from and three more are checked; wasm/recipe/apply.ts has the same number. */
const CHECKED_FIRST = 4;

export function createRecipeEngine(reads: Reads): RecipeEngine {
  const { call, grow } = openRecipeModule(reads, PROCESS_SEED);
  const [text, out, heap] = [call.TEXT.value, call.OUT_ONE.value, call.HEAP.value];
  const textBytesMax = call.TEXT_BYTES.value;
  const [specials, specialBytes] = [call.SPECIALS.value, call.SPECIAL_BYTES.value];
  const specialLengths = call.SPECIAL_LENGTHS.value >> 2;
  let memory = grow(heap);
  let heapEnd = heap;
  let recipes: Kept[] = [];

  function putText(value: string): number {
    return memory.bytes.write(value, text, textBytesMax, "utf8");
  }

  function makeRoom(bytes: number): void {
    if (recipes.length >= RECIPES_MAX || heapEnd + bytes > heap + RECIPE_BYTES_MAX) forgetRare();
    if (heapEnd + bytes > memory.bytes.length) memory = grow(heapEnd + 2 * bytes);
  }

  function usesOf({ address }: Kept): number {
    return memory.view.getUint32(address, true);
  }

  /** Moves the recipes that were used most to the front of the heap. Their use counts half from now on. */
  function forgetRare(): void {
    const kept = recipes.sort((a, b) => usesOf(b) - usesOf(a)).slice(0, RECIPES_MAX * KEPT_SHARE);
    call.clearRecipes();
    heapEnd = heap;
    recipes = [];
    for (const recipe of kept.sort((a, b) => a.address - b.address)) {
      if (heapEnd + recipe.bytes > heap + RECIPE_BYTES_MAX * KEPT_SHARE) break;
      const uses = usesOf(recipe);
      memory.bytes.copyWithin(heapEnd, recipe.address, recipe.address + recipe.bytes);
      // A recipe that passed its first checks does not go through them again.
      memory.view.setUint32(heapEnd, uses > CHECKED_FIRST ? Math.max(CHECKED_FIRST, uses >>> 1) : uses, true);
      keep({ ...recipe, address: heapEnd });
    }
  }

  function keep(recipe: Kept): void {
    heapEnd = recipe.address + recipe.bytes;
    recipes.push(recipe);
    call.addRecipe(recipe.low, recipe.high, recipe.address);
  }

  function choose(what: RecipeFor): void {
    if (what === "event") call.chooseFingerprint();
    else if ("list" in what) call.chooseList(what.list);
    else if ("template" in what) call.chooseTemplate();
    else call.chooseAdded(what.addedTo);
  }

  return {
    get recipes() {
      return recipes.length;
    },
    setSalt: (value) => call.setSalt(putText(value)),
    setSpecial(index, value) {
      const start = specials + index * specialBytes;
      memory.numbers[specialLengths + index] = putAscii(memory.bytes, value, start)
        ? value.length
        : memory.bytes.write(value, start, specialBytes, "utf8");
    },
    convert(event, timestampMs) {
      if (event.length > textBytesMax) return "not_canonical";
      memory.bytes.set(event, text);
      return conversionOf(call.convert(event.length, timestampMs));
    },
    ...createManyConverter(call, () => memory),
    convertAgain: () => conversionOf(call.convertAgain()),
    isComposed: () => call.isComposed() !== 0,
    canonical(event) {
      if (event.length > textBytesMax) return undefined;
      const length = call.canonicalize(event.length);
      return length === 0 ? undefined : Buffer.from(memory.bytes.subarray(out, out + length));
    },
    out: (length) => memory.bytes.subarray(out, out + length),
    isCheckDue: () => call.isCheckDue() !== 0,
    isWide: (length) => call.isWide(length) !== 0,
    fingerprint: () => `${call.fingerprintHigh()}:${call.fingerprintLow()}`,
    mainFingerprint: () => `${call.mainHigh()}:${call.mainLow()}`,
    variant: () => `${call.variantHigh()}:${call.variantLow()}`,
    slices() {
      const first = call.LEAVES.value >> 2;
      return Array.from({ length: call.leafCount() }, (_, index) => {
        const at = first + index * SLICE_NUMBERS;
        const start = memory.numbers[at]! - text;
        return { start, end: start + memory.numbers[at + 1]!, kind: KINDS[memory.numbers[at + 2]!]! };
      });
    },
    groups() {
      const first = call.GROUPS.value >> 2;
      return Array.from({ length: call.groupCount() }, (_, index) => {
        const at = first + index * GROUP_NUMBERS;
        const [start, end, firstSlice, slices] = memory.numbers.subarray(at, at + GROUP_NUMBERS);
        return { start: start! - text, end: end! - text, firstSlice: firstSlice!, slices: slices! };
      });
    },
    has(what) {
      choose(what);
      return call.isKnown() !== 0;
    },
    add(parts, what = "event") {
      const literalBytes = parts.reduce((sum, part) => sum + literalOf(part).length, 0);
      makeRoom(HEADER_BYTES + parts.length * PART_BYTES + literalBytes + PADDING_BYTES);
      const recipe = heapEnd;
      choose(what);
      memory.view.setUint32(recipe, 0, true);
      memory.view.setUint32(recipe + 4, parts.length, true);
      memory.view.setUint32(recipe + 8, numberOf(what), true);
      memory.view.setBigUint64(recipe + 16, 0n, true);
      let at = recipe + HEADER_BYTES;
      let literal = at + parts.length * PART_BYTES;
      for (const part of parts) {
        memory.view.setUint32(at, PART_KINDS[part.kind], true);
        memory.view.setUint32(at + 4, "index" in part ? part.index : literal - recipe, true);
        memory.view.setUint32(at + 8, literalOf(part).length, true);
        memory.bytes.set(literalOf(part), literal);
        literal += literalOf(part).length;
        at += PART_BYTES;
      }
      const bytes = Math.ceil((literal + PADDING_BYTES - recipe) / 4) * 4;
      keep({ low: call.keyLow(), high: call.keyHigh(), address: recipe, bytes });
    },
  };
}

function numberOf(what: RecipeFor): number {
  if (what === "event" || "list" in what) return 0;
  return "template" in what ? what.template : what.number;
}

const REASONS: Readonly<Record<number, Exclude<Conversion, number>>> = {
  0: "unknown",
  [-1]: "not_canonical",
  [-2]: "dropped",
  [-3]: "no_list",
};

function conversionOf(length: number): Conversion {
  if (length > 0) return length;
  return REASONS[length] ?? "not_canonical";
}

/** A recipe in the heap, with its fingerprint. */
interface Kept {
  readonly low: number;
  readonly high: number;
  readonly address: number;
  readonly bytes: number;
}

const NOTHING = new Uint8Array(0);

function literalOf(part: RecipePart): Uint8Array {
  return part.kind === "literal" ? part.bytes : NOTHING;
}
