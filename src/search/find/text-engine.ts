import { readFileSync } from "node:fs";

interface Place {
  readonly value: number;
}

/** The exports of wasm/text.ts. */
interface Exports {
  readonly memory: WebAssembly.Memory;
  readonly TEXT: Place;
  readonly WORD: Place;
  readonly WORD_BYTES: Place;
  readonly PADDING_BYTES: Place;
  setWord(length: number): void;
  find(length: number, from: number): number;
  findSpelling(length: number, from: number): number;
  plain(length: number): number;
}

/** Looks through bytes for words, without regard to case and in whatever spelling. It may find too much, never less. */
export interface TextEngine {
  /** Whether the bytes contain one of the words. */
  mayContain(bytes: Uint8Array): boolean;
  /** Memory of the engine for so many bytes, until it is asked anything but `placesIn`. */
  room(bytes: number): Uint8Array;
  /**
   * Where words are found in a room that was filled, at least one place in each line that contains one. The room is
   * the same afterwards.
   */
  placesIn(room: Uint8Array): number[];
  /** For each of the slices, which are in ascending order, whether it contains one of the words. */
  candidates(content: Uint8Array, slices: readonly Slice[]): boolean[];
}

interface Slice {
  readonly start: number;
  readonly length: number;
}

/** Words contain none, so each is inside one line. */
const LINE_BREAK = 0x0a;
const WASM_PAGE_BYTES = 65_536;
// Tests run from the sources; they use the module that was built beside them.
const FILE = import.meta.url.endsWith(".ts") ? "../../../dist/src/search/find/text.wasm" : "./text.wasm";

/** The words are ASCII, in lower case. Of a long word the beginning is enough. */
export function createTextEngine(words: readonly string[]): TextEngine {
  const module = new WebAssembly.Module(readFileSync(new URL(FILE, import.meta.url)));
  const call = new WebAssembly.Instance(module).exports as unknown as Exports;
  const [text, word] = [call.TEXT.value, call.WORD.value];
  const texts = words.map((one) => Buffer.from(one, "latin1").subarray(0, call.WORD_BYTES.value));
  let memory = new Uint8Array(call.memory.buffer);

  function room(bytes: number): Uint8Array {
    const missing = text + bytes + call.PADDING_BYTES.value - memory.length;
    if (missing > 0) {
      call.memory.grow(Math.ceil(missing / WASM_PAGE_BYTES));
      memory = new Uint8Array(call.memory.buffer);
    }
    return memory.subarray(text, text + bytes);
  }

  function take(bytes: Uint8Array): void {
    room(bytes.length).set(bytes);
  }

  function choose(bytes: Uint8Array): void {
    memory.set(bytes, word);
    call.setWord(bytes.length);
  }

  function containsWord(length: number): boolean {
    return texts.some((bytes) => {
      choose(bytes);
      return call.find(length, 0) >= 0;
    });
  }

  function mayContain(bytes: Uint8Array): boolean {
    take(bytes);
    if (containsWord(bytes.length)) return true;
    return call.findSpelling(bytes.length, 0) >= 0 && containsWord(call.plain(bytes.length));
  }

  /** At most one place in each line. */
  function* linesWith(content: Buffer, next: (from: number) => number): Generator<number> {
    for (let at = next(0); at >= 0; ) {
      yield at;
      const end = content.indexOf(LINE_BREAK, at);
      at = end < 0 ? -1 : next(end);
    }
  }

  /** A copy of the line: the memory is used for its test. */
  function lineAt(content: Buffer, at: number): Buffer {
    const start = content.lastIndexOf(LINE_BREAK, at) + 1;
    const end = content.indexOf(LINE_BREAK, at);
    return Buffer.from(content.subarray(start, end < 0 ? undefined : end));
  }

  return {
    mayContain,
    room,
    placesIn({ buffer, byteOffset, length }) {
      const content = Buffer.from(buffer as ArrayBuffer, byteOffset, length);
      const found = texts.flatMap((bytes) => {
        choose(bytes);
        return [...linesWith(content, (from) => call.find(length, from))];
      });
      const spelled = [...linesWith(content, (from) => call.findSpelling(length, from))];
      const lines = spelled.map((at) => ({ at, line: lineAt(content, at) }));
      // Each of these tests overwrites the beginning of the room, and the caller may keep what is in it.
      const longest = lines.reduce((most, { line }) => Math.max(most, line.length), 0);
      const beginning = Buffer.from(content.subarray(0, longest + call.PADDING_BYTES.value));
      const foundSpelled = lines.filter(({ line }) => mayContain(line)).map(({ at }) => at);
      content.set(beginning);
      return [...found, ...foundSpelled];
    },
    candidates(content, slices) {
      const found = slices.map(() => false);
      take(content);
      for (const bytes of texts) {
        choose(bytes);
        for (const at of slicesWith(slices, (from) => call.find(content.length, from))) found[at] = true;
      }
      const spelled = [...slicesWith(slices, (from) => call.findSpelling(content.length, from))];
      for (const at of spelled) {
        const { start, length } = slices[at]!;
        found[at] ||= mayContain(content.subarray(start, start + length));
      }
      return found;
    },
  };
}

/** The numbers of the slices in which `next` finds something. */
function* slicesWith(slices: readonly Slice[], next: (from: number) => number): Generator<number> {
  let slice = 0;
  for (let at = next(slices[0]?.start ?? 0); at >= 0; ) {
    while (slice < slices.length && slices[slice]!.start + slices[slice]!.length <= at) slice++;
    if (slice === slices.length) return;
    const { start, length } = slices[slice]!;
    if (start <= at) yield slice;
    at = next(start <= at ? start + length : start);
  }
}
