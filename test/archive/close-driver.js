// Opens the archive of a state file and closes all there is to close. The kill campaign gives `killAt` and `mode`: the
// process kills itself with SIGKILL at that operation on the state or the store, so every kill hits a known step.
import { openArchive } from "../../dist/src/archive/archive.js";
import { parseSigner } from "../../dist/src/archive/log/note.js";
import { openDirectory } from "../../dist/src/archive/store/directory.js";
import { openS3 } from "../../dist/src/archive/store/s3.js";
import { systemClock } from "../../dist/src/core/clock.js";
import { secretOf } from "../../dist/src/core/secret.js";
import { openArchiveState } from "../../dist/src/journal/archive/state.js";
import { openState } from "../../dist/src/journal/database.js";

const { file, journal, store, s3, key, nowMs, origin, work, staging, killAt, mode } = JSON.parse(
  process.argv[2],
);
const STEPS = new Set(
  "create replace read propose setProposal confirm noteArrivals plan page setBuilt stage setFact".split(" "),
);
let steps = 0;
const die = () => process.kill(process.pid, "SIGKILL");

/** Counts the operations, and kills before, in the middle of, or after the chosen one. */
function counted(target) {
  return new Proxy(target, {
    get(object, name) {
      const method = object[name];
      if (typeof method !== "function" || !STEPS.has(name)) return method;
      return async (...args) => {
        if (++steps !== killAt) return method.apply(object, args);
        if (mode === "before") die();
        const result = method.apply(object, args);
        if (mode === "during") setImmediate(die);
        await result;
        die();
        return new Promise(() => {});
      };
    },
  });
}

const clock = { now: () => nowMs, sleep: systemClock.sleep };
const signal = new AbortController().signal;
const db = openState(file);
const state = counted(
  await openArchiveState(db, {
    name: "evidence",
    journal,
    retentionMs: 90 * 86_400_000,
    stagingFolder: staging,
  }),
);
const opened = counted(
  s3
    ? await openS3(
        { ...s3, accessKeyId: secretOf(s3.accessKeyId), secretAccessKey: secretOf(s3.secretAccessKey) },
        clock,
      )
    : await openDirectory(store),
);
const archive = await openArchive(
  state,
  opened,
  clock,
  {
    origin,
    signer: parseSigner(key),
    settleMs: 0,
    classOf: () => "default",
    policy: "{}",
    workFolder: work,
    eventsMax: 60,
  },
  signal,
);
while ((await archive.closeStep(signal)) === "again");
process.send?.(steps);
process.disconnect?.();
db.close();
await opened.close();
