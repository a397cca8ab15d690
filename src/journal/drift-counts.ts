import type { DriftRow } from "../core/drift.ts";
import type { State } from "./database.ts";

/** Where drift is kept between runs. */
export function createDriftStore(db: State) {
  const select = db.prepare(
    "SELECT service, kind, path, detail, first_ms AS firstSeenMs, last_ms AS lastSeenMs, events AS count FROM drift ORDER BY events DESC",
  );
  const upsert = db.prepare(
    `INSERT OR REPLACE INTO drift (service, kind, path, detail, first_ms, last_ms, events)
     VALUES (@service, @kind, @path, @detail, @firstSeenMs, @lastSeenMs, @count)`,
  );
  return {
    rows: () => select.all() as DriftRow[],
    /** Together with the caller's own change, in one transaction. */
    save: (rows: readonly DriftRow[], alongside: () => void): Promise<void> =>
      db.change(() => {
        for (const { service, kind, path, detail, firstSeenMs, lastSeenMs, count } of rows) {
          upsert.run({ service, kind, path, detail, firstSeenMs, lastSeenMs, count });
        }
        alongside();
      }),
  };
}
