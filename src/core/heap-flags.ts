import { setFlagsFromString } from "node:v8";
import type { Worker } from "node:worker_threads";

/**
 * Objects made from a page are garbage a moment later: a larger young generation would only fill up. But pages in
 * memory count as growth too, and their coming and going is no reason to collect anything. The flags save 10% of
 * the processor time of an export to OCSF files, and make no difference to a raw one.
 */
const FLAGS = ["--semi-space-growth-factor=1", "--heap-growing-percent=400"];

export function setHeapFlags(): void {
  for (const flag of FLAGS) setFlagsFromString(flag);
}

/** Node gives all flags their values of the command line again when a thread starts, so they are set after it. */
export function keepHeapFlags(worker: Worker): void {
  worker.once("online", setHeapFlags);
}
