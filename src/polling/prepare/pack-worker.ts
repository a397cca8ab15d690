import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { collectAfterHuge } from "../../core/collect-garbage.ts";
import { createPagePacking, type FoundPage, transferOf } from "./pack.ts";

/* The thread behind worker.ts, which compresses its pages. */

export interface PackData {
  /** From the page thread. */
  readonly pages: MessagePort;
}

const pack = createPagePacking();

(workerData as PackData).pages.on("message", (page: FoundPage) => {
  const { length } = page.body;
  const answer = pack(page);
  parentPort!.postMessage(answer, transferOf(answer));
  collectAfterHuge(length);
});
