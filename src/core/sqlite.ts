import { createRequire } from "node:module";
import type Database from "better-sqlite3";

/**
 * The SQLite binding that works on this Node: version 13 crashes where Node-API is older than 10 (before Node
 * 22.14), version 12 aborts on Node 24 when a statement is collected. Both are optional packages, so that one
 * that cannot be installed here does no harm.
 */
export const Sqlite = load();

function load(): typeof Database {
  const name = Number(process.versions.napi) >= 10 ? "better-sqlite3-13" : "better-sqlite3";
  try {
    return createRequire(import.meta.url)(name) as typeof Database;
  } catch (error) {
    throw new Error(
      `The SQLite binding ${name} is not installed for Node.js ${process.version}: run "npm ci" again with this Node.js; where no binary fits, it needs a C++ compiler and Python (${(error as Error).message}).`,
      { cause: error },
    );
  }
}
