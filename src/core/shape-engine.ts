import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";

interface Place {
  readonly value: number;
}

/** The exports of wasm/shape.ts. */
interface Exports {
  readonly memory: WebAssembly.Memory;
  readonly TEXT: Place;
  readonly TEXT_BYTES: Place;
  readonly PADDING_BYTES: Place;
  setSeed(low: number, high: number): void;
  read(length: number): number;
  hashLow(): number;
  hashHigh(): number;
}

export interface ShapeEngine {
  /**
   * A key for the event's structure: its keys and the types of its values. Undefined for an event that is very
   * large or nested very deeply. Keys are comparable within one engine only.
   */
  shapeOf(event: Uint8Array): string | undefined;
}

const WASM_PAGE_BYTES = 65_536;
// Tests run from the sources; they use the module that was built beside them.
const FILE = import.meta.url.endsWith(".ts") ? "../../dist/src/core/shape.wasm" : "./shape.wasm";

export function createShapeEngine(): ShapeEngine {
  const module = new WebAssembly.Module(readFileSync(new URL(FILE, import.meta.url)));
  const call = new WebAssembly.Instance(module).exports as unknown as Exports;
  const text = call.TEXT.value;
  const textBytesMax = call.TEXT_BYTES.value;
  const missing = text + textBytesMax + call.PADDING_BYTES.value - call.memory.buffer.byteLength;
  if (missing > 0) call.memory.grow(Math.ceil(missing / WASM_PAGE_BYTES));
  const memory = new Uint8Array(call.memory.buffer);
  const seed = randomBytes(8);
  call.setSeed(seed.readUInt32LE(0), seed.readUInt32LE(4));

  return {
    shapeOf(event) {
      if (event.length > textBytesMax) return undefined;
      memory.set(event, text);
      if (call.read(event.length) === 0) return undefined;
      return `${call.hashHigh()}:${call.hashLow()}`;
    },
  };
}
