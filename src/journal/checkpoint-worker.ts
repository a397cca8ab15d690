import { parentPort, workerData } from "node:worker_threads";
import { Sqlite } from "../core/sqlite.ts";
import { type CheckpointAnswer, lengthOf } from "./checkpoints.ts";

/* The thread behind checkpoints.ts. */

/** The first turn copies most; each further one what was committed during the one before. */
const TURNS_MAX = 3;
const FEW_FRAMES = 100;

const db = new Sqlite(workerData as string, { timeout: 0, fileMustExist: true });
db.pragma("cache_size = 8");

parentPort?.on("message", (order: "copy" | "close") => {
  if (order === "close") {
    db.close();
    parentPort!.close();
  } else parentPort!.postMessage(copy());
});

function copy(): CheckpointAnswer {
  try {
    for (let turn = 1, before = 0; ; turn++) {
      const { log, checkpointed } = lengthOf(db, "PASSIVE");
      if (turn === TURNS_MAX || checkpointed - before < FEW_FRAMES) return { log, checkpointed };
      before = checkpointed;
    }
  } catch (error) {
    return { failure: (error as Error).message };
  }
}
