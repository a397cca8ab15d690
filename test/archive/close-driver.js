// Opens the archive of a state file and closes all there is to close. The kill campaign ends it at any moment.
import { openArchive } from "../../dist/src/archive/archive.js";
import { parseSigner } from "../../dist/src/archive/log/note.js";
import { openDirectory } from "../../dist/src/archive/store/directory.js";
import { openS3 } from "../../dist/src/archive/store/s3.js";
import { systemClock } from "../../dist/src/core/clock.js";
import { secretOf } from "../../dist/src/core/secret.js";
import { openArchiveState } from "../../dist/src/journal/archive/state.js";
import { openState } from "../../dist/src/journal/database.js";

const { file, journal, store, s3, key, nowMs, origin, work, staging } = JSON.parse(process.argv[2]);
const clock = { now: () => nowMs, sleep: systemClock.sleep };
const signal = new AbortController().signal;
const db = openState(file);
const state = await openArchiveState(db, {
  name: "evidence",
  journal,
  retentionMs: 90 * 86_400_000,
  stagingFolder: staging,
});
const opened = s3
  ? await openS3(
      { ...s3, accessKeyId: secretOf(s3.accessKeyId), secretAccessKey: secretOf(s3.secretAccessKey) },
      clock,
    )
  : await openDirectory(store);
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
process.send?.("open");
while ((await archive.closeStep(signal)) === "again");
process.send?.("done");
process.disconnect?.();
db.close();
await opened.close();
