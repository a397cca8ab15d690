import { readFileSync } from "node:fs";
import { createPageScratch } from "./page-scratch.ts";
import { PROCESS_SEED, seedNumbers } from "./process-seed.ts";

interface Place {
  readonly value: number;
}

/** The exports of wasm/page.ts. */
interface Exports {
  readonly memory: WebAssembly.Memory;
  readonly TEXT: Place;
  readonly ROWS: Place;
  readonly ROWS_MAX: Place;
  readonly OWNER: Place;
  readonly OWNER_BYTES: Place;
  readonly RUNS: Place;
  readonly TIMES: Place;
  readonly SHAPES: Place;
  readonly KEY_BLOCKS: Place;
  readonly IDENTITIES: Place;
  readonly DIGESTS: Place;
  readonly PADDING_BYTES: Place;
  setSeed(low: number, high: number): void;
  begin(isLines: number): void;
  scan(length: number, isLast: number, base: number): number;
  consumedBytes(): number;
  failureKind(): number;
  failureOffset(): number;
  hasLineBreaks(): number;
  writeKeys(from: number, to: number, ownerLength: number, base: number): void;
  identify(rows: number, base: number): void;
}

const WASM_PAGE_BYTES = 65_536;
/** Small enough to stay in a processor's cache until all is made of it. */
const TEXT_BYTES = 262_144;
/** An engine that a huge event has made larger than this is not kept. */
const KEPT_BYTES_MAX = 16_777_216;

/**
 * A machine for the work on every byte of a page, with a memory of its own: a stretch of text is put into it,
 * and what it makes of that is taken out.
 */
export interface Engine {
  readonly call: Exports;
  readonly rowsMax: number;
  readonly ownerBytesMax: number;
  /** How much text it takes; more with every `grow`. */
  readonly textBytesMax: number;
  grow(bytes: number): void;
  /** A stretch of the bytes, with zeros behind it. */
  putText(bytes: Uint8Array, from: number, to: number): void;
  /** Views of its memory; made again when it grows. */
  readonly memory: EngineMemory;
  readonly scratch: ReturnType<typeof createPageScratch>;
}

export interface EngineMemory {
  readonly rows: Int32Array;
  readonly timesMs: Float64Array;
  /** Two numbers a row. */
  readonly shapes: Int32Array;
  /** 1 for a row whose organization is that of the row before. */
  readonly runs: Uint8Array;
  readonly owner: Buffer;
  readonly keyBlocks: Int32Array;
  readonly identities: Uint8Array;
  readonly digests: Uint32Array;
}

// Sources, as tests run them, use what was built beside them.
const FILE = import.meta.url.endsWith(".ts") ? "../../dist/src/core/page.wasm" : "./page.wasm";
/** A cache: compiling takes longer than scanning a page. */
const cache: { compiled?: WebAssembly.Module; engine?: Engine | undefined } = {};

/** Lends an engine for a piece of work that does not wait for anything. */
export function withEngine<Result>(work: (engine: Engine) => Result): Result {
  const engine = cache.engine ?? createEngine();
  cache.engine = undefined;
  try {
    return work(engine);
  } finally {
    if (engine.textBytesMax <= KEPT_BYTES_MAX) cache.engine = engine;
  }
}

export function createEngine(textBytes = TEXT_BYTES): Engine {
  cache.compiled ??= new WebAssembly.Module(readFileSync(new URL(FILE, import.meta.url)));
  const call = new WebAssembly.Instance(cache.compiled).exports as Exports;
  call.setSeed(...seedNumbers(PROCESS_SEED));
  const rowsMax = call.ROWS_MAX.value;
  const text = call.TEXT.value;
  const padding = call.PADDING_BYTES.value;
  let textBytesMax = textBytes;
  let memory = memoryNow();

  function memoryNow(): EngineMemory & { readonly all: Uint8Array } {
    const { ROWS, OWNER, OWNER_BYTES, RUNS, TIMES, SHAPES, KEY_BLOCKS, IDENTITIES, DIGESTS } = call;
    const missing = text + textBytesMax + padding - call.memory.buffer.byteLength;
    if (missing > 0) call.memory.grow(Math.ceil(missing / WASM_PAGE_BYTES));
    const { buffer } = call.memory;
    return {
      all: new Uint8Array(buffer),
      rows: new Int32Array(buffer, ROWS.value),
      timesMs: new Float64Array(buffer, TIMES.value, rowsMax),
      shapes: new Int32Array(buffer, SHAPES.value, 2 * rowsMax),
      runs: new Uint8Array(buffer, RUNS.value, rowsMax),
      owner: Buffer.from(buffer, OWNER.value, OWNER_BYTES.value),
      keyBlocks: new Int32Array(buffer, KEY_BLOCKS.value, rowsMax),
      identities: new Uint8Array(buffer, IDENTITIES.value),
      digests: new Uint32Array(buffer, DIGESTS.value),
    };
  }

  return {
    call,
    rowsMax,
    scratch: createPageScratch(),
    ownerBytesMax: call.OWNER_BYTES.value,
    get textBytesMax() {
      return textBytesMax;
    },
    grow(bytes) {
      textBytesMax = bytes;
      memory = memoryNow();
    },
    putText(bytes, from, to) {
      memory.all.set(bytes.subarray(from, to), text);
      memory.all.fill(0, text + to - from, text + to - from + padding);
    },
    get memory() {
      return memory;
    },
  };
}
