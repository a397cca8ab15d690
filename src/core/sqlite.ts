import { createRequire } from "node:module";
import type Database from "better-sqlite3";

/**
 * The SQLite binding that works on this Node. Version 13 has its binaries in the package, but needs Node-API 10
 * (Node 22.14). Version 12 is for older Nodes, and may have to be compiled. Both are optional packages, so that one
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
