import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import type { ChangeKind, ReadKind, Reads } from "./reads.ts";

interface Place {
  readonly value: number;
}

/** The exports of wasm/recipe/recipe.ts. */
interface Exports {
  readonly memory: WebAssembly.Memory;
  readonly TEXT: Place;
  readonly TEXT_BYTES: Place;
  readonly OUT: Place;
  readonly HEAP: Place;
  readonly LEAVES: Place;
  readonly SPECIALS: Place;
  readonly SPECIAL_BYTES: Place;
  readonly SPECIAL_LENGTHS: Place;
  setSeed(low: number, high: number): void;
  setSalt(length: number): void;
  declareFromTop(): void;
  declare(length: number, kind: number): void;
  declareName(length: number, kind: number): void;
  declareTypeWord(length: number): void;
  convert(length: number, timestampMs: number): number;
  fingerprintLow(): number;
  fingerprintHigh(): number;
  leafCount(): number;
  isWide(): number;
  isCheckDue(): number;
  addRecipe(low: number, high: number, address: number): void;
  clearRecipes(): void;
}

/** A slice of the event that a recipe may copy, without the quotes of a string. */
export interface EventSlice {
  readonly start: number;
  readonly end: number;
  /** "run": neighbouring members that no converter reads. */
  readonly kind: ReadKind | "run";
}

/** A recipe writes its parts one after the other. */
export type RecipePart =
  | { readonly kind: "literal"; readonly bytes: Uint8Array }
  | { readonly kind: "slice"; readonly index: number }
  | { readonly kind: "special"; readonly index: number };

/** Values of an event that are not in its bytes, by their index. */
export const SPECIAL = {
  organization: 0,
  identity: 1,
  timestampMs: 2,
  fetchedAtMs: 3,
  fetchedAt: 4,
} as const;

/**
 * - a number: so many converted bytes are in `out`
 * - unknown: there is no recipe for its fingerprint yet
 * - dropped: its fingerprint has no recipe and gets none
 * - not_canonical: JSON.stringify would write the event differently, or it is too large or too deep
 */
export type Conversion = number | "unknown" | "dropped" | "not_canonical";

/** Makes the fingerprint of an event and converts it by its recipe, in WebAssembly. */
export interface RecipeEngine {
  /** Part of every fingerprint: values that are the same for many events and part of their output. */
  setSalt(text: string): void;
  /** Every special value but the timestamp, which `convert` takes. */
  setSpecial(index: number, text: string): void;
  convert(event: Uint8Array, timestampMs: number): Conversion;
  /** The converted bytes; the next conversion overwrites them. */
  out(length: number): Buffer;
  /** Whether to compare the last conversion with the converter. */
  isCheckDue(): boolean;
  /** True if the last event may have bytes outside ASCII. */
  isWide(): boolean;
  fingerprint(): string;
  slices(): readonly EventSlice[];
  /** Makes a recipe for the last event's fingerprint. Without parts, the fingerprint is dropped. */
  add(parts: readonly RecipePart[]): void;
  readonly recipes: number;
}

const KINDS: readonly (ReadKind | "run" | undefined)[] = [
  undefined,
  ...(["decides", "copied", "compared", "email", "address", "latitude", "time", "url", "changes"] as const),
  undefined,
  "run",
  undefined,
  undefined,
  "type",
  "longitude",
  "number",
];
const CHANGE_KINDS: Readonly<Record<ChangeKind, number>> = { alone: 10, entry: 12, ordered: 13 };
const HAS_MEMBERS = 32;
const PART_KINDS = { literal: 0, slice: 1, special: 2 } as const;
const HEADER_BYTES = 8;
const PART_BYTES = 12;
const SLICE_NUMBERS = 4;
const WASM_PAGE_BYTES = 65_536;
/** At either limit the half that was used least is forgotten. */
const RECIPES_MAX = 4096;
const RECIPE_BYTES_MAX = 16_777_216;
const PADDING_BYTES = 64;
/** So many uses of a new recipe are checked; wasm/recipe/recipe.ts has the same number. */
const CHECKED_FIRST = 3;

// Tests run from the sources; they use the module that was built beside them.
const FILE = import.meta.url.endsWith(".ts") ? "../../dist/src/core/recipe.wasm" : "./recipe.wasm";

export function createRecipeEngine(reads: Reads): RecipeEngine {
  const module = new WebAssembly.Module(readFileSync(new URL(FILE, import.meta.url)));
  const call = new WebAssembly.Instance(module).exports as unknown as Exports;
  const [text, out, heap] = [call.TEXT.value, call.OUT.value, call.HEAP.value];
  const textBytesMax = call.TEXT_BYTES.value;
  const encoder = new TextEncoder();
  let memory = grow(heap + WASM_PAGE_BYTES);
  let heapEnd = heap;
  let recipes: Kept[] = [];
  const seed = randomBytes(8);
  call.setSeed(seed.readUInt32LE(0), seed.readUInt32LE(4));
  for (const path of reads.paths.keys()) declare(path);
  for (const [name, kind] of reads.changes.names) call.declareName(putText(name), CHANGE_KINDS[kind]);
  for (const word of reads.changes.typeWords) call.declareTypeWord(putText(word));

  function grow(bytes: number) {
    const missing = bytes - call.memory.buffer.byteLength;
    if (missing > 0) call.memory.grow(Math.ceil(missing / WASM_PAGE_BYTES));
    const { buffer } = call.memory;
    return { bytes: Buffer.from(buffer), numbers: new Int32Array(buffer), view: new DataView(buffer) };
  }

  function putText(value: string): number {
    return encoder.encodeInto(value, memory.bytes.subarray(text, text + textBytesMax)).written;
  }

  /** Declares a path with all its parents. Later declarations of a parent have the same kind. */
  function declare(path: string): void {
    const keys = path.split(".");
    call.declareFromTop();
    keys.forEach((key, at) => {
      const own = keys.slice(0, at + 1).join(".");
      const kind = KINDS.indexOf(reads.paths.get(own) ?? "decides");
      call.declare(putText(key), kind | (hasMembers(own) ? HAS_MEMBERS : 0));
    });
  }

  function hasMembers(path: string): boolean {
    for (const other of reads.paths.keys()) if (other.startsWith(`${path}.`)) return true;
    return false;
  }

  function makeRoom(bytes: number): void {
    if (recipes.length >= RECIPES_MAX || heapEnd + bytes > heap + RECIPE_BYTES_MAX) forgetHalf();
    if (heapEnd + bytes > memory.bytes.length) memory = grow(heapEnd + 2 * bytes);
  }

  function usesOf({ address }: Kept): number {
    return memory.view.getUint32(address, true);
  }

  /** Moves the recipes that were used most to the front of the heap. Their use counts half from now on. */
  function forgetHalf(): void {
    const kept = recipes.sort((a, b) => usesOf(b) - usesOf(a)).slice(0, RECIPES_MAX / 2);
    call.clearRecipes();
    heapEnd = heap;
    recipes = [];
    for (const recipe of kept.sort((a, b) => a.address - b.address)) {
      if (heapEnd + recipe.bytes > heap + RECIPE_BYTES_MAX / 2) break;
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

  return {
    get recipes() {
      return recipes.length;
    },
    setSalt: (value) => call.setSalt(putText(value)),
    setSpecial(index, value) {
      const start = call.SPECIALS.value + index * call.SPECIAL_BYTES.value;
      const written = memory.bytes.write(value, start, call.SPECIAL_BYTES.value, "utf8");
      memory.numbers[(call.SPECIAL_LENGTHS.value >> 2) + index] = written;
    },
    convert(event, timestampMs) {
      if (event.length > textBytesMax) return "not_canonical";
      memory.bytes.set(event, text);
      const length = call.convert(event.length, timestampMs);
      if (length > 0) return length;
      return length === 0 ? "unknown" : length === -2 ? "dropped" : "not_canonical";
    },
    out: (length) => memory.bytes.subarray(out, out + length),
    isCheckDue: () => call.isCheckDue() !== 0,
    isWide: () => call.isWide() !== 0,
    fingerprint: () => `${call.fingerprintHigh()}:${call.fingerprintLow()}`,
    slices() {
      const first = call.LEAVES.value >> 2;
      return Array.from({ length: call.leafCount() }, (_, index) => {
        const at = first + index * SLICE_NUMBERS;
        const start = memory.numbers[at]! - text;
        return { start, end: start + memory.numbers[at + 1]!, kind: KINDS[memory.numbers[at + 2]!]! };
      });
    },
    add(parts) {
      const literalBytes = parts.reduce((sum, part) => sum + literalOf(part).length, 0);
      makeRoom(HEADER_BYTES + parts.length * PART_BYTES + literalBytes + PADDING_BYTES);
      const recipe = heapEnd;
      memory.view.setUint32(recipe, 0, true);
      memory.view.setUint32(recipe + 4, parts.length, true);
      let at = recipe + HEADER_BYTES;
      let literal = at + parts.length * PART_BYTES;
      for (const part of parts) {
        memory.view.setUint32(at, PART_KINDS[part.kind], true);
        memory.view.setUint32(at + 4, part.kind === "literal" ? literal - recipe : part.index, true);
        memory.view.setUint32(at + 8, literalOf(part).length, true);
        memory.bytes.set(literalOf(part), literal);
        literal += literalOf(part).length;
        at += PART_BYTES;
      }
      const bytes = Math.ceil((literal + PADDING_BYTES - recipe) / 4) * 4;
      keep({ low: call.fingerprintLow(), high: call.fingerprintHigh(), address: recipe, bytes });
    },
  };
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
