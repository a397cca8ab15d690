import type { State } from "./database.ts";

const KEY = "sink_settings";

/** A digest of the settings that each sink had at the last start, by its name. */
export function settingsKept(db: State): ReadonlyMap<string, string> {
  const text = db.prepare("SELECT value FROM meta WHERE key = ?").pluck().get(KEY) as string | undefined;
  return new Map(text === undefined ? [] : (JSON.parse(text) as [string, string][]));
}

export async function keepSettings(db: State, settings: ReadonlyMap<string, string>): Promise<void> {
  const text = JSON.stringify([...settings]);
  const kept = db.prepare("SELECT value FROM meta WHERE key = ?").pluck().get(KEY);
  if (kept === text) return;
  await db.change(() => db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)").run(KEY, text));
}
