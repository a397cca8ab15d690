import { readdirSync, readFileSync } from "node:fs";

export interface Migration {
  readonly number: number;
  /** The name of its file, which begins with the number. */
  readonly name: string;
  readonly sql: string;
}

/** The path is the same seen from src/journal and from dist/journal. */
const FOLDER = new URL("../../src/journal/migrations/", import.meta.url);

/** In the order of their numbers, which are theirs for good. */
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
