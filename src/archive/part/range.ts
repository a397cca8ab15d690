import { decompress } from "../../core/zstd.ts";
import type { ArchiveStore } from "../store/store.ts";
import { nonceSource } from "./data-file.ts";
import { parseKeyFrame, type RangeKey } from "./frames.ts";
import { createEventHasher, type EventHasher, lineNonceOf } from "./hashing.ts";
import type { Line } from "./manifest.ts";

/** One organization's range of a data file, read with ranged reads alone. */
export interface Range {
  readonly key: RangeKey;
  readonly lineNonce: Buffer;
  readonly hasher: EventHasher;
  /** Every slice with its index; null for an erased one. One frame is in memory at a time. */
  slices(): AsyncIterable<{ readonly index: number; readonly slice: Buffer | null }>;
}

export async function openRange(store: ArchiveStore, data: string, line: Line): Promise<Range> {
  const head = await store.read(data, { from: line.offset, length: line.key_bytes });
  const key = head && parseKeyFrame(head, line.events);
  if (key === undefined)
    throw new Error(
      `${store.place}/${data} is missing or damaged at ${line.organization}: run \`archive verify\`.`,
    );
  return {
    key,
    lineNonce: key.kind === "secret" ? lineNonceOf(key.secret) : key.line,
    hasher: createEventHasher(nonceSource(key)),
    slices: () => slicesOf(store, data, line),
  };
}

const LINE_BREAK = 0x0a;

async function* slicesOf(store: ArchiveStore, data: string, line: Line) {
  const breaks = new Map(line.breaks.map(([index, , length]) => [index, length]));
  const erased = new Set(line.erased.map(([index]) => index));
  let from = line.offset + line.key_bytes;
  let index = 0;
  for (const [stored] of line.frames) {
    const frame = await store.read(data, { from, length: stored });
    if (frame?.length !== stored)
      throw new Error(`${store.place}/${data} ends too early: run \`archive verify\`.`);
    from += stored;
    const content = decompress(frame);
    for (let at = 0; at < content.length; index++) {
      const end = at + (breaks.get(index) ?? content.indexOf(LINE_BREAK, at) - at);
      yield { index, slice: erased.has(index) ? null : content.subarray(at, end) };
      at = end + 1;
    }
  }
}
