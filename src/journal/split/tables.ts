/**
 * The treatment of each table when states are split or merged. A new table must be listed here: a test compares
 * this list with the schema.
 *
 * - owner: its rows go to the shard of their organization.
 * - totals: sums without an owner; shard 0 takes them, so that the sum over all shards stays the same.
 * - new: made anew for each shard.
 * - gone: must be empty, or does not matter after a restart.
 */
export const TABLES: Readonly<Record<string, "owner" | "totals" | "new" | "gone">> = {
  meta: "new",
  migrations: "new",
  readers: "new",
  pages: "owner",
  identities: "owner",
  also_seen: "owner",
  streams: "owner",
  windows: "owner",
  gaps: "owner",
  organizations: "owner",
  dead_letters: "owner",
  jobs: "owner",
  job_events: "owner",
  job_users: "owner",
  job_parts: "owner",
  import_runs: "owner",
  import_schedules: "owner",
  unattributed: "totals",
  lateness: "totals",
  drift: "totals",
  // All bytes were delivered before.
  bodies: "gone",
  requests: "gone",
  // A state with an archive is not split: see ready.ts.
  archives: "gone",
  archive_entries: "gone",
  archive_open: "gone",
  archive_plans: "gone",
  archive_parts: "gone",
  archive_closed: "gone",
  archive_staged: "gone",
  archive_facts: "gone",
  archive_tombstones: "gone",
  archive_versions: "gone",
};
