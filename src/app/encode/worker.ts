import { parentPort } from "node:worker_threads";
import type { EncodedSlice, EncodeOrder } from "../../core/page-slice.ts";
import { createSliceEncoder } from "./encode-slice.ts";

/* The thread behind thread.ts. */
export interface WorkerOrder {
  readonly id: number;
  readonly order: EncodeOrder;
}
export interface WorkerResult {
  readonly id: number;
  readonly encoded: EncodedSlice;
}

const encode = createSliceEncoder();

parentPort?.on("message", ({ id, order }: WorkerOrder) => {
  const encoded = encode(order);
  const result: WorkerResult = { id, encoded };
  parentPort!.postMessage(result, [encoded.bytes.buffer, encoded.ends.buffer]);
});
