import type { Keep, KeptEvent } from "../events.ts";
import type { Settings } from "../options.ts";
import { type Db, readMeta, writeMeta } from "./database.ts";

/** The settings that a world is made of: when its file is opened again they are taken from there. */
const lasting = ["seed", "organizations", "events", "days", "eventBytes", "lateness", "futureShare"] as const;

export function recall(db: Db, given: Settings): { settings: Settings; historyEndMs: number; run: number } {
  const stored = readMeta(db, "settings");
  const run = Number(readMeta(db, "run") ?? 0);
  writeMeta(db, "run", String(run + 1));
  if (stored !== null) {
    const historyEndMs = Number(readMeta(db, "historyEndMs"));
    return { settings: { ...given, ...(JSON.parse(stored) as Partial<Settings>) }, historyEndMs, run };
  }
  writeMeta(db, "settings", JSON.stringify(Object.fromEntries(lasting.map((name) => [name, given[name]]))));
  const historyEndMs = given.startMs + given.skewMs;
  writeMeta(db, "historyEndMs", String(historyEndMs));
  return { settings: given, historyEndMs, run };
}

export function createKeep(db: Db): Keep {
  const insert = db.prepare("INSERT INTO kept_events (organization, visible_at, text) VALUES (?, ?, ?)");
  return db.transaction((events: readonly KeptEvent[]) => {
    for (const event of events) insert.run(event.organization, event.visibleAt, event.text);
  });
}

export function* keptEvents(db: Db): Generator<KeptEvent> {
  const rows = db.prepare<[], { organization: number; visible_at: number; text: Buffer }>(
    "SELECT organization, visible_at, text FROM kept_events ORDER BY number",
  );
  for (const row of rows.iterate())
    yield { organization: row.organization, visibleAt: row.visible_at, text: row.text };
}
