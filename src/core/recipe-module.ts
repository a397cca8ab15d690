import { readFileSync } from "node:fs";
import { seedNumbers } from "./process-seed.ts";
import type { ChangeKind, ReadKind, Reads } from "./reads.ts";

interface Place {
  readonly value: number;
}

/** The exports of wasm/recipe/recipe.ts. */
export interface RecipeExports {
  readonly memory: WebAssembly.Memory;
  readonly TEXT: Place;
  readonly TEXT_BYTES: Place;
  readonly OUT: Place;
  readonly OUT_ONE: Place;
  readonly OUT_BYTES: Place;
  readonly HEAP: Place;
  readonly LEAVES: Place;
  readonly SPECIALS: Place;
  readonly SPECIAL_BYTES: Place;
  readonly SPECIAL_LENGTHS: Place;
  setSeed(low: number, high: number): void;
  setSalt(length: number): void;
  declareFromTop(): void;
  declare(length: number, kind: number): void;
  declareName(length: number, kind: number, on: number, off: number, other: number): void;
  declareWord(length: number, number: number): void;
  declareRank(length: number, rank: number): void;
  declareTypeWord(length: number): void;
  declareSeverity(effect: number, table: number, severity: number): void;
  convert(length: number, timestampMs: number): number;
  convertAgain(): number;
  readonly MANY_MAX: Place;
  readonly ROWS: Place;
  readonly TIMES: Place;
  readonly RUNS: Place;
  readonly IDENTITIES: Place;
  readonly OTHERWISE: Place;
  readonly PLACES: Place;
  readonly ENDS: Place;
  convertMany(count: number, base: number, otherwiseLength: number): number;
  isComposed(): number;
  chooseFingerprint(): void;
  chooseTemplate(): void;
  chooseAdded(family: number): void;
  chooseList(list: number): void;
  isKnown(): number;
  keyLow(): number;
  keyHigh(): number;
  canonicalize(length: number): number;
  fingerprintLow(): number;
  fingerprintHigh(): number;
  leafCount(): number;
  readonly GROUPS: Place;
  groupCount(): number;
  mainLow(): number;
  mainHigh(): number;
  variantLow(): number;
  variantHigh(): number;
  isWide(length: number): number;
  isCheckDue(): number;
  addRecipe(low: number, high: number, address: number): void;
  clearRecipes(): void;
  readonly ANSWERS: Place;
  readonly EVENTS_MAX: Place;
  readLines(length: number): number;
  readRows(count: number, base: number): void;
}

/** By the numbers of wasm/recipe/kinds.ts. */
export const KINDS: readonly (ReadKind | "run" | undefined)[] = [
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
const NAMES = { always: 10, entry: 12, ordered: 13, switched: 17, ranked: 18, listed: 19, words: 20 };
/** Bits of a number in the module. */
const EFFECTS_MAX = 32;
const HAS_MEMBERS = 32;
const GROUP = 64;
const WASM_PAGE_BYTES = 65_536;

// Tests run from the sources; they use the module that was built beside them.
const FILE = import.meta.url.endsWith(".ts") ? "../../dist/src/core/recipe.wasm" : "./recipe.wasm";

/** The memory of the module. Views of it are invalid after the next growth. */
export interface ModuleMemory {
  readonly bytes: Buffer;
  readonly numbers: Int32Array;
  readonly times: Float64Array;
  readonly view: DataView;
}

/**
 * A new instance that knows how converters read events. Instances with the same seed can use each other's records of
 * events. `grow` gives at least so many bytes.
 */
export function openRecipeModule(
  reads: Reads,
  seed: string,
): {
  readonly call: RecipeExports;
  grow(bytes: number): ModuleMemory;
} {
  const module = new WebAssembly.Module(readFileSync(new URL(FILE, import.meta.url)));
  const call = new WebAssembly.Instance(module).exports as unknown as RecipeExports;
  const text = call.TEXT.value;

  function grow(bytes: number): ModuleMemory {
    const missing = bytes - call.memory.buffer.byteLength;
    if (missing > 0) call.memory.grow(Math.ceil(missing / WASM_PAGE_BYTES));
    const { buffer } = call.memory;
    return {
      bytes: Buffer.from(buffer),
      numbers: new Int32Array(buffer),
      times: new Float64Array(buffer),
      view: new DataView(buffer),
    };
  }

  const memory = grow(call.HEAP.value + WASM_PAGE_BYTES);
  call.setSeed(...seedNumbers(seed));
  for (const path of reads.paths.keys()) declare(path);
  const bitsOf = numberEffects(reads.changes);
  for (const [name, kind] of reads.changes.names) declareName(name, kind);
  for (const [word, rank] of reads.changes.ranks) call.declareRank(putText(word), rank);
  for (const word of reads.changes.typeWords) call.declareTypeWord(putText(word));
  reads.changes.severities.forEach((table, number) => {
    for (const [effect, severity] of table) call.declareSeverity(bitsOf([effect]), number, severity);
  });

  function putText(value: string): number {
    return memory.bytes.write(value, text, "utf8");
  }

  function declareName(name: string, kind: ChangeKind): void {
    const declare = (number: number, on: readonly string[] = [], off = on, other = on) =>
      call.declareName(putText(name), number, bitsOf(on), bitsOf(off), bitsOf(other));
    if (typeof kind === "string") declare(NAMES[kind]);
    else if ("always" in kind) declare(NAMES.always, kind.always);
    else if ("words" in kind) {
      const [first, second, third, ...more] = kind.words;
      if (more.length > 0) throw new Error(`The change of ${name} has more than three words.`);
      declare(NAMES.words, first?.[1] ?? [], second?.[1] ?? [], third?.[1] ?? []);
      kind.words.forEach(([word], at) => {
        call.declareWord(putText(word), at + 1);
      });
    } else if ("on" in kind) declare(kind.isListed ? NAMES.listed : NAMES.switched, kind.on, kind.off);
    else declare(NAMES.ranked, kind.higher, kind.lower, kind.other);
  }

  /** Declares a path with all its parents. Later declarations of a parent have the same kind. */
  function declare(path: string): void {
    const keys = path.split(".");
    call.declareFromTop();
    keys.forEach((key, at) => {
      const own = keys.slice(0, at + 1).join(".");
      const kind = KINDS.indexOf(reads.paths.get(own) ?? "decides");
      const group = reads.groups.includes(own) ? GROUP : 0;
      call.declare(putText(key), kind | (hasMembers(own) ? HAS_MEMBERS : 0) | group);
    });
  }

  function hasMembers(path: string): boolean {
    for (const other of reads.paths.keys()) if (other.startsWith(`${path}.`)) return true;
    return false;
  }

  return { call, grow };
}

/** A bit for each effect that a name has, in the order of the severities; no bit for any other. */
function numberEffects({ names, severities }: Reads["changes"]): (effects: readonly string[]) => number {
  const used = new Set([...names.values()].flatMap(effectsOf));
  const ordered = severities.flatMap((table) => [...table.keys()]).filter((effect) => used.has(effect));
  if (ordered.length > EFFECTS_MAX) throw new Error("There are more effects of changes than bits.");
  if (ordered.length < used.size) throw new Error("An effect of changes has no severity.");
  return (effects) =>
    effects.reduce((all, effect) => (used.has(effect) ? all | (1 << ordered.indexOf(effect)) : all), 0);
}

function effectsOf(kind: ChangeKind): readonly string[] {
  if (typeof kind === "string") return [];
  if ("always" in kind) return kind.always;
  if ("words" in kind) return kind.words.flatMap(([, effects]) => effects);
  return "on" in kind ? [...kind.on, ...kind.off] : [...kind.higher, ...kind.lower, ...kind.other];
}
