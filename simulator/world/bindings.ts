import type { Db } from "./database.ts";

/** Who is bound to what, directly or by a group, together with those who once were provisioned. */
export function bindings(db: Db) {
  const isBound = db.prepare<[string, string, string, string], unknown>(
    `SELECT 1 FROM associations WHERE application = ? AND type = 'user' AND target = ?
     UNION SELECT 1 FROM associations JOIN user_group_members ON group_id = target
       WHERE application = ? AND type = 'user_group' AND user_id = ? LIMIT 1`,
  );
  const applications = db.prepare<[string, string, string], { application: string; organization: string }>(
    `SELECT DISTINCT application, applications.organization FROM (
       SELECT application FROM associations WHERE type = 'user' AND target = ?
       UNION SELECT application FROM associations JOIN user_group_members ON group_id = target
         WHERE type = 'user_group' AND user_id = ?
       UNION SELECT application FROM provisioned WHERE user = ?
     ) JOIN applications ON applications.id = application`,
  );
  const users = db.prepare<[string, string, string], { user: string }>(
    `SELECT target AS user FROM associations WHERE application = ? AND type = 'user'
     UNION SELECT user_id FROM associations JOIN user_group_members ON group_id = target
       WHERE application = ? AND type = 'user_group'
     UNION SELECT user FROM provisioned WHERE application = ?`,
  );
  return {
    isBound: (application: string, user: string) =>
      isBound.get(application, user, application, user) !== undefined,
    applicationsOf: (user: string) => applications.all(user, user, user),
    usersOf: (application: string) => users.all(application, application, application).map((row) => row.user),
  };
}
