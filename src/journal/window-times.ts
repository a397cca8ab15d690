import type { Window } from "../core/window.ts";
import type { State } from "./database.ts";

const KEY = "window_times";
/** So many windows are looked at together; a ledger of many organizations has hundreds of thousands. */
const TOGETHER = 10_000;

type Due = Pick<Window, "sweeps" | "nextMs">;
export type StoredTimes = Due & Pick<Window, "id" | "fromMs" | "toMs" | "state">;

/** The times by which the windows of this state are due, as `fitWindows` was told last. */
export function timesKept(db: State): string | null {
  return (db.prepare("SELECT value FROM meta WHERE key = ?").pluck().get(KEY) as string | undefined) ?? null;
}

/** Brings the times of all windows that were read in line with those of the config, which are kept with them. */
export async function fitWindows(
  db: State,
  times: string,
  fitted: (account: string, window: StoredTimes) => Due,
): Promise<void> {
  if (timesKept(db) === times) return;
  const select = db.prepare(
    `SELECT w.id, s.account, w.from_ms AS fromMs, w.to_ms AS toMs, w.state, w.sweeps, w.next_ms AS nextMs
     FROM windows w JOIN streams s ON s.id = w.stream
     WHERE w.id > ? AND w.live = 0 AND w.reader IS NULL AND w.state IN ('read', 'sealed') AND w.next_ms IS NOT NULL
     ORDER BY w.id LIMIT ${TOGETHER}`,
  );
  const update = db.prepare("UPDATE windows SET sweeps = ?, next_ms = ? WHERE id = ?");
  await db.change(() => {
    for (let rows: (StoredTimes & { account: string })[], last = 0; ; last = rows.at(-1)!.id) {
      rows = select.all(last) as typeof rows;
      for (const { account, ...window } of rows) {
        const { sweeps, nextMs } = fitted(account, window);
        if (sweeps !== window.sweeps || nextMs !== window.nextMs) update.run(sweeps, nextMs, window.id);
      }
      if (rows.length < TOGETHER) break;
    }
    db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)").run(KEY, times);
  });
}
