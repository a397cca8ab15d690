import { parentPort } from "node:worker_threads";
import { createCompressions, type PackMessage } from "./packer.ts";
import { createFrameCompressor } from "./zstd.ts";

/* The thread behind packer.ts. */
const compress = createCompressions(createFrameCompressor);

parentPort?.on("message", ({ memory, length, ...order }: PackMessage) => {
  const pieces = compress.part(order.kind, memory.subarray(0, length), order.isLast);
  const packed = pieces.reduce((sum, piece) => sum + piece.length, 0);
  // Bytes that cannot be compressed become a little longer.
  const room = packed <= memory.length ? memory : new Uint8Array(packed);
  let at = 0;
  for (const piece of pieces) {
    room.set(piece, at);
    at += piece.length;
  }
  const answer: PackMessage = { ...order, memory: room, length: packed };
  parentPort!.postMessage(answer, [room.buffer]);
});
