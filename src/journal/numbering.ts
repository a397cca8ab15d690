import type { State } from "./database.ts";

/** Numbers for new rows of a table. None is given twice, also where a row was removed or its transaction failed. */
export function createNumbering(db: State, table: "windows" | "streams") {
  const newest = db.prepare(`SELECT COALESCE(MAX(id), 0) FROM ${table}`).pluck();
  let used = 0;
  function see(): void {
    used = Math.max(used, newest.get() as number);
  }
  return {
    /** Before rows are removed. */
    see,
    next(): number {
      see();
      return ++used;
    },
  };
}
