import type Database from "better-sqlite3";
import { Sqlite } from "../../src/core/sqlite.ts";

export type Db = Database.Database;

/** Everything that the management API can change. Documents are JSON where the specification leaves them open. */
const schema = `
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS filled (organization TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS users (
  id TEXT PRIMARY KEY, organization TEXT NOT NULL, username TEXT NOT NULL, email TEXT NOT NULL,
  firstname TEXT NOT NULL, lastname TEXT NOT NULL, state TEXT NOT NULL, suspended INTEGER NOT NULL DEFAULT 0,
  source TEXT NOT NULL, attributes TEXT NOT NULL DEFAULT '{}', UNIQUE (organization, username));
CREATE INDEX IF NOT EXISTS users_by_email ON users (organization, email);
CREATE TABLE IF NOT EXISTS user_groups (id TEXT PRIMARY KEY, organization TEXT NOT NULL, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS user_group_members (group_id TEXT, user_id TEXT, PRIMARY KEY (group_id, user_id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS groups_of_user ON user_group_members (user_id);
CREATE TABLE IF NOT EXISTS applications (id TEXT PRIMARY KEY, organization TEXT NOT NULL, document TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS applications_of ON applications (organization);
CREATE TABLE IF NOT EXISTS associations (
  application TEXT, type TEXT, target TEXT, PRIMARY KEY (application, type, target)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS associations_of_target ON associations (type, target);
CREATE TABLE IF NOT EXISTS jobs (
  id TEXT PRIMARY KEY, organization TEXT NOT NULL, application TEXT NOT NULL, kind TEXT NOT NULL,
  request TEXT NOT NULL, created_ms REAL NOT NULL, next_ms REAL NOT NULL, finished_ms REAL);
CREATE TABLE IF NOT EXISTS job_users (
  job TEXT, number INTEGER, entry TEXT NOT NULL, outcome TEXT NOT NULL, user TEXT, error TEXT, at_ms REAL,
  PRIMARY KEY (job, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS schedules (
  id TEXT PRIMARY KEY, organization TEXT NOT NULL, user TEXT NOT NULL, state TEXT NOT NULL, at_ms REAL NOT NULL,
  done INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS systems (
  id TEXT PRIMARY KEY, organization TEXT NOT NULL, os TEXT NOT NULL, enrollment TEXT NOT NULL, public_key TEXT,
  document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS system_groups (id TEXT PRIMARY KEY, organization TEXT NOT NULL, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS system_group_members (group_id TEXT, system_id TEXT, PRIMARY KEY (group_id, system_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS system_associations (
  system_id TEXT, type TEXT, target TEXT, PRIMARY KEY (system_id, type, target)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS provisioned (
  application TEXT, user TEXT, remote TEXT NOT NULL, active INTEGER NOT NULL, sent TEXT NOT NULL, endpoint TEXT NOT NULL,
  PRIMARY KEY (application, user)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kept_events (
  number INTEGER PRIMARY KEY, organization INTEGER NOT NULL, visible_at REAL NOT NULL, text BLOB NOT NULL);
`;

export function openDatabase(file: string | null): Db {
  const db = new Sqlite(file ?? ":memory:");
  db.pragma("journal_mode = WAL");
  // A simulator's state may be lost in a power cut; a benchmark must not wait for its disk.
  db.pragma("synchronous = OFF");
  db.exec(schema);
  return db;
}

export function readMeta(db: Db, name: string): string | null {
  const row = db.prepare<[string], { value: string }>("SELECT value FROM meta WHERE name = ?").get(name);
  return row?.value ?? null;
}

export function writeMeta(db: Db, name: string, value: string): void {
  db.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)").run(name, value);
}
