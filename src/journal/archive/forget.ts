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

/** How many pages an archive has moved out of the journal until their days close. */
export function stagedPagesOf(db: State, name: string): number {
  return db.prepare("SELECT COUNT(*) FROM archive_staged WHERE archive = ?").pluck().get(name) as number;
}

/** Within a change of the state. Without it the pages that the archive had not closed would stay for ever. */
export function forgetArchive(db: State, name: string): void {
  // Overwritten first: what the secrets were made from must not stay in a free part of the file.
  db.prepare("UPDATE archive_plans SET seed = zeroblob(length(seed)) WHERE archive = ?").run(name);
  for (const table of TABLES) db.prepare(`DELETE FROM ${table} WHERE archive = ?`).run(name);
  db.prepare("DELETE FROM archives WHERE name = ?").run(name);
}
