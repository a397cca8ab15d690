import type { State } from "../database.ts";

const TABLES = [
  "archive_entries",
  "archive_open",
  "archive_plans",
  "archive_parts",
  "archive_closed",
  "archive_staged",
  "archive_facts",
  "archive_tombstones",
  "archive_versions",
] as const;

/** How many pages an archive has moved out of the journal until their days close, and its holds and erasures. */
export function archiveFactsOf(db: State, name: string) {
  const count = (table: string) =>
    db.prepare(`SELECT COUNT(*) FROM ${table} WHERE archive = ?`).pluck().get(name) as number;
  const holds = db
    .prepare("SELECT json_array_length(value) FROM archive_facts WHERE archive = ? AND key = 'holds'")
    .pluck()
    .get(name) as number | undefined;
  return { stagedPages: count("archive_staged"), erasures: count("archive_tombstones"), holds: holds ?? 0 };
}

/** Within a change of the state. Without it the pages that the archive had not closed would stay for ever. */
export function forgetArchive(db: State, name: string): void {
  // Overwritten first: what the secrets were made from must not stay in a free part of the file.
  db.prepare("UPDATE archive_plans SET seed = zeroblob(length(seed)) WHERE archive = ?").run(name);
  for (const table of TABLES) db.prepare(`DELETE FROM ${table} WHERE archive = ?`).run(name);
  db.prepare("DELETE FROM archives WHERE name = ?").run(name);
}
