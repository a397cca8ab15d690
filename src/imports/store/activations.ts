import type { Database } from "better-sqlite3";
import { CAN_BE_ACTIVATED, STAGED } from "./user-views.ts";

/**
 * Which users of a job can be activated, and who does so. Users are known by their ids, because a row may become
 * another one's while the service is asked. Changes run inside the caller's change.
 */
export interface Activations {
  /** Users of the job that can be activated: created or updated, known by id, not activated yet. */
  staged(job: number): { readonly userId: string; readonly name: string }[];
  /** False: somebody else activates the user, or has done so. A claim whose process ended is void after ten minutes. */
  claim(job: number, userId: string, nowMs: number): boolean;
  /** The activation failed. */
  unclaim(job: number, userId: string, nowMs: number): void;
  activated(job: number, userId: string, nowMs: number): void;
}

export function openActivations(db: Database): Activations {
  const claim = db.prepare(
    `UPDATE job_users SET activated_ms = ? WHERE job = ? AND user_id = ? AND ${CAN_BE_ACTIVATED}`,
  );
  const unclaim = db.prepare(
    `UPDATE job_users SET activated_ms = NULL
     WHERE job = ? AND user_id = ? AND activated_ms = ? AND user_state IS NOT 'ACTIVATED'`,
  );
  const staged = db.prepare<[number], { userId: string; name: string }>(
    `SELECT user_id AS userId, coalesce(username, email, user_id) AS name FROM job_users WHERE ${STAGED} ORDER BY id`,
  );
  const activated = db.prepare(
    "UPDATE job_users SET activated_ms = ?, user_state = 'ACTIVATED' WHERE job = ? AND user_id = ?",
  );
  return {
    staged: (job) => staged.all(job),
    claim: (job, userId, nowMs) => claim.run(nowMs, job, userId).changes > 0,
    unclaim(job, userId, nowMs) {
      unclaim.run(job, userId, nowMs);
    },
    activated(job, userId, nowMs) {
      activated.run(nowMs, job, userId);
    },
  };
}
