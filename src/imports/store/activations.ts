import type { Database } from "better-sqlite3";
import { CAN_BE_ACTIVATED, STAGED } from "./user-views.ts";

/** Which users of a job can be activated, and who does so. Changes run inside the caller's change. */
export interface Activations {
  /** Users of the job that can be activated: created or updated, known by id, not activated yet. */
  staged(job: number): { readonly id: number; readonly userId: string; readonly name: string }[];
  /** False: somebody else activates the user, or has done so. A claim whose process ended is void after ten minutes. */
  claim(id: number, nowMs: number): boolean;
  /** The activation failed. */
  unclaim(id: number, nowMs: number): void;
  activated(id: number, nowMs: number): void;
}

export function openActivations(db: Database): Activations {
  const claim = db.prepare(`UPDATE job_users SET activated_ms = ? WHERE id = ? AND ${CAN_BE_ACTIVATED}`);
  const unclaim = db.prepare(
    "UPDATE job_users SET activated_ms = NULL WHERE id = ? AND activated_ms = ? AND user_state IS NOT 'ACTIVATED'",
  );
  const staged = db.prepare<[number], { id: number; userId: string; name: string }>(
    `SELECT id, user_id AS userId, coalesce(username, email, user_id) AS name FROM job_users WHERE ${STAGED} ORDER BY id`,
  );
  const activated = db.prepare(
    "UPDATE job_users SET activated_ms = ?, user_state = 'ACTIVATED' WHERE id = ?",
  );
  return {
    staged: (job) => staged.all(job),
    claim: (id, nowMs) => claim.run(nowMs, id).changes === 1,
    unclaim(id, nowMs) {
      unclaim.run(id, nowMs);
    },
    activated(id, nowMs) {
      activated.run(nowMs, id);
    },
  };
}
