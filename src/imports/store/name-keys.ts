import type { Database } from "better-sqlite3";
import { foldName } from "../fold-name.ts";

/** The folded name in a row; "" where there is none. */
export function nameKeyOf(name: string | null): string {
  return name === null ? "" : foldName(name);
}

interface Unfolded {
  readonly id: number;
  readonly username: string | null;
  readonly email: string | null;
}

/** Folds the names of a job's users that an earlier version stored, inside the caller's change. */
export function createFolding(db: Database): (job: number) => void {
  const unfolded = db.prepare<[number], Unfolded>(
    "SELECT id, username, email FROM job_users WHERE job = ? AND name_key IS NULL",
  );
  const fold = db.prepare("UPDATE job_users SET name_key = ?, email_key = ? WHERE id = ?");
  return (job) => {
    for (const { id, username, email } of unfolded.all(job))
      fold.run(nameKeyOf(username), nameKeyOf(email), id);
  };
}
