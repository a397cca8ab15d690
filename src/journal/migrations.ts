import { readdirSync, readFileSync } from "node:fs";

export interface Migration {
  readonly number: number;
  /** The name of its file, which begins with the number. */
  readonly name: string;
  readonly sql: string;
}

/** The list of migrations that were run. */
export const MIGRATIONS_TABLE =
  "CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, run_ms INTEGER NOT NULL)";

/** The build copies this folder to dist/, so the path is the same there. */
const FOLDER = new URL("./migrations/", import.meta.url);

/** In the order of their numbers, which never change. */
export function migrations(): readonly Migration[] {
  return readdirSync(FOLDER)
    .filter((name) => /^\d{4}-.*\.sql$/.test(name))
    .sort()
    .map((name) => ({
      number: Number(name.slice(0, 4)),
      name: name.replace(/\.sql$/, ""),
      sql: readFileSync(new URL(name, FOLDER), "utf8"),
    }));
}
