import { randomUUID } from "node:crypto";
import type { State } from "./database.ts";

/**
 * Makes this process the one that works with the state. The lock keeps a second one out only while its file is there:
 * where somebody removes the file, a second process starts. From then on every change of the first one fails, so that
 * the two do not deliver the same events.
 */
export async function claimState(db: State): Promise<void> {
  const own = randomUUID();
  const owner = db.prepare("SELECT value FROM meta WHERE key = 'process'").pluck();
  const { change } = db;
  await change(() =>
    db
      .prepare(
        "INSERT INTO meta (key, value) VALUES ('process', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
      )
      .run(own),
  );
  const guarded: State["change"] = (work) =>
    change(() => {
      if (owner.get() !== own) throw new OtherProcessError(db.name);
      return work();
    });
  Object.assign(db, { change: guarded });
}

class OtherProcessError extends Error {
  override readonly name = "OtherProcessError";
  constructor(file: string) {
    super(
      `Another Tidemark has started to work with ${file}, although this one holds its lock: somebody has removed or replaced ${file}.lock. This process changes nothing any more and ends; the other one goes on. Never remove the lock file: it needs no cleaning.`,
    );
  }
}
