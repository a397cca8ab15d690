import type { State } from "./database.ts";

const KEY = "sink_settings";

/** A digest of the settings that each sink had at the last start, by its name. */
export function settingsKept(db: State): ReadonlyMap<string, string> {
  const text = db.prepare("SELECT value FROM meta WHERE key = ?").pluck().get(KEY) as string | undefined;
  return new Map(text === undefined ? [] : (JSON.parse(text) as [string, string][]));
}

export async function keepSettings(db: State, settings: ReadonlyMap<string, string>): Promise<void> {
  const kept = JSON.stringify([...settingsKept(db)]);
  if (kept !== JSON.stringify([...settings])) await db.change(() => write(db, settings));
}

/** Inside a change: the names mean other sinks from now on. */
export function forgetSettings(db: State, names: readonly string[]): void {
  const kept = settingsKept(db);
  if (!names.some((name) => kept.has(name))) return;
  write(db, new Map([...kept].filter(([name]) => !names.includes(name))));
}

function write(db: State, settings: ReadonlyMap<string, string>): void {
  const text = JSON.stringify([...settings]);
  db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)").run(KEY, text);
}
