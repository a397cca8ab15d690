import { parentPort } from "node:worker_threads";
import { createCompressions, type PackAnswer, type PackOrder } from "./packer.ts";

/* The thread behind packer.ts. */
const compress = createCompressions();

parentPort?.on("message", ({ id, kind, memory, length }: PackOrder) => {
  // Memory of its own: a small result would otherwise be a slice of Node's shared pool, which cannot be sent.
  const packed = new Uint8Array(compress[kind](memory.subarray(0, length)));
  const answer: PackAnswer = { id, memory, packed };
  parentPort!.postMessage(answer, [memory.buffer, packed.buffer]);
});
