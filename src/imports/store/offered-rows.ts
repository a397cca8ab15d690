import type { Database } from "better-sqlite3";

/** What is asked of, or done to, the users of long lists: each method looks at few rows. */
export interface OfferedRows {
  /** Forgets up to `limit` users of a list that was not stored to its end. Returns how many it forgot. */
  forgetOffer(job: number, limit: number): number;
  /** Whether any offered user has no outcome. */
  isWaiting(job: number): boolean;
  /** The same of one part. */
  isPartWaiting(job: number, part: number): boolean;
  /** Fails up to `limit` users of a part that have no outcome. Returns how many. */
  failSome(job: number, part: number, reason: string, limit: number): number;
}

export function openOfferedRows(db: Database): OfferedRows {
  const placed = db.prepare<[number, number], { id: number; isTold: number }>(
    `SELECT id, told_by = 'results' OR EXISTS (SELECT 1 FROM job_events e WHERE e.user = job_users.id) AS isTold
     FROM job_users WHERE job = ? AND number IS NOT NULL LIMIT ?`,
  );
  const unplace = db.prepare("UPDATE job_users SET number = NULL, entry = NULL, part = NULL WHERE id = ?");
  const remove = db.prepare("DELETE FROM job_users WHERE id = ?");
  const waiting = db.prepare<[number]>(
    "SELECT 1 FROM job_users WHERE job = ? AND outcome = 'pending' AND number IS NOT NULL LIMIT 1",
  );
  const partWaiting = db.prepare<[number, number]>(
    "SELECT 1 FROM job_users WHERE job = ? AND part = ? AND outcome = 'pending' LIMIT 1",
  );
  const failSome = db.prepare(
    `UPDATE job_users SET outcome = 'failed', reason = ?, told_by = 'answer' WHERE id IN
       (SELECT id FROM job_users WHERE job = ? AND part = ? AND outcome = 'pending' LIMIT ?)`,
  );
  return {
    forgetOffer(job, limit) {
      const rows = placed.all(job, limit);
      // Events may have named a user of the list meanwhile: that stays.
      for (const { id, isTold } of rows) (isTold ? unplace : remove).run(id);
      return rows.length;
    },
    isWaiting: (job) => waiting.get(job) !== undefined,
    isPartWaiting: (job, part) => partWaiting.get(job, part) !== undefined,
    failSome: (job, part, reason, limit) => failSome.run(reason.slice(0, 500), job, part, limit).changes,
  };
}
