import { parentPort } from "node:worker_threads";
import type { ReadableStore, StoredFile } from "../store/store.ts";
import { checkFilesOf, type PartOrder, type PartResult } from "./check-part.ts";

/* The thread behind checkers.ts, which describes the messages. An order has at most one read under way. */

export type ToChecker =
  | { readonly kind: "order"; readonly id: number; readonly order: PartOrder }
  | { readonly kind: "bytes"; readonly id: number; readonly bytes: Uint8Array<ArrayBuffer> | undefined }
  | { readonly kind: "found"; readonly id: number; readonly found: StoredFile | undefined }
  | { readonly kind: "drop"; readonly id: number };

export type FromChecker =
  | { readonly kind: "read"; readonly id: number; readonly path: string; readonly range?: ReadRange }
  | { readonly kind: "stat"; readonly id: number; readonly path: string }
  | { readonly kind: "result"; readonly id: number; readonly result: PartResult }
  | { readonly kind: "failed"; readonly id: number; readonly error: unknown };

interface ReadRange {
  readonly from: number;
  readonly length: number;
}

type Answer = ToChecker & { readonly kind: "bytes" | "found" };

const reads = new Map<number, (answer: Answer) => void>();
const send = (message: FromChecker) => parentPort!.postMessage(message);

function storeOf(id: number): ReadableStore {
  const ask = (message: FromChecker) =>
    new Promise<Answer>((resolve) => {
      reads.set(id, resolve);
      send(message);
    });
  return {
    async read(path, range) {
      const answer = await ask({ kind: "read", id, path, ...(range && { range }) });
      if (answer.kind !== "bytes" || answer.bytes === undefined) return undefined;
      return Buffer.from(answer.bytes.buffer, answer.bytes.byteOffset, answer.bytes.byteLength);
    },
    async stat(path) {
      const answer = await ask({ kind: "stat", id, path });
      return answer.kind === "found" ? answer.found : undefined;
    },
  };
}

parentPort?.on("message", (message: ToChecker) => {
  switch (message.kind) {
    case "order":
      return void checkFilesOf(storeOf(message.id), message.order).then(
        (result) => send({ kind: "result", id: message.id, result }),
        (error) => send({ kind: "failed", id: message.id, error }),
      );
    case "bytes":
    case "found": {
      const resolve = reads.get(message.id);
      reads.delete(message.id);
      return resolve?.(message);
    }
    case "drop":
      return void reads.delete(message.id);
  }
});
