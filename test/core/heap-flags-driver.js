// Makes much garbage and prints the size of the young generation: none | set | thread | kept | starting.
import { getHeapSpaceStatistics } from "node:v8";
import { Worker } from "node:worker_threads";
import { keepHeapFlags, setHeapFlags } from "../../dist/src/core/heap-flags.js";

const mode = process.argv[2];
let garbage = [];
if (mode !== "none") setHeapFlags();
if (mode === "starting") {
  const worker = new Worker("setInterval(() => {}, 1000)", { eval: true });
  let isOnline = false;
  keepHeapFlags(worker);
  worker.once("online", () => {
    isOnline = true;
  });
  while (!isOnline) {
    makeGarbage(2000);
    await new Promise((resolve) => setTimeout(resolve));
  }
} else if (mode === "thread" || mode === "kept") {
  const worker = new Worker("setInterval(() => {}, 1000)", { eval: true });
  if (mode === "kept") keepHeapFlags(worker);
  await new Promise((resolve) => worker.once("online", resolve));
  await new Promise((resolve) => setImmediate(resolve));
}
makeGarbage(1_000_000);
const young = getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space");
process.stdout.write(String(young.space_size));
process.exit(0);

function makeGarbage(objects) {
  for (let at = 0; at < objects; at++) {
    garbage.push({ at, text: String(at) });
    if (garbage.length > 50_000) garbage = [];
  }
}
