// Makes much garbage and prints the size of the young generation: none | set | thread | kept.
import { getHeapSpaceStatistics } from "node:v8";
import { Worker } from "node:worker_threads";
import { keepHeapFlags, setHeapFlags } from "../../dist/src/core/heap-flags.js";

const mode = process.argv[2];
if (mode !== "none") setHeapFlags();
if (mode === "thread" || mode === "kept") {
  const worker = new Worker("setInterval(() => {}, 1000)", { eval: true });
  if (mode === "kept") keepHeapFlags(worker);
  await new Promise((resolve) => worker.once("online", resolve));
  await new Promise((resolve) => setImmediate(resolve));
}
let garbage = [];
for (let at = 0; at < 1_000_000; at++) {
  garbage.push({ at, text: String(at) });
  if (garbage.length > 50_000) garbage = [];
}
const young = getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space");
process.stdout.write(String(young.space_size));
process.exit(0);
