-- One row for each archive: its log as the store has it, and the checkpoint that is being written.
CREATE TABLE archives (
  name TEXT PRIMARY KEY,
  size INTEGER NOT NULL DEFAULT 0,
  root TEXT,
  checkpoint TEXT,
  proposal TEXT,
  -- The last page of the journal whose events were noted.
  noted_page INTEGER NOT NULL DEFAULT 0,
  -- Pages up to this one were read, and perhaps trimmed, before the archive began.
  start_page INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- The entries of an archive's log. Those from `size` on are proposed and not confirmed yet.
CREATE TABLE archive_entries (
  archive TEXT NOT NULL,
  number INTEGER NOT NULL,
  entry BLOB NOT NULL,
  plan INTEGER,
  PRIMARY KEY (archive, number)
) WITHOUT ROWID;

-- Events that wait to be closed. A page's bytes stay while it has a row here.
CREATE TABLE archive_open (
  archive TEXT NOT NULL,
  page INTEGER NOT NULL,
  owner TEXT NOT NULL,
  -- The UTC day of the events' own time; empty for events without a usable time.
  day TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('day', 'late', 'undated')),
  -- The day under which they are closed: their own, or for additions the day of arrival.
  bucket TEXT NOT NULL,
  account TEXT NOT NULL,
  events INTEGER NOT NULL,
  plan INTEGER,
  PRIMARY KEY (archive, page, owner, day)
) WITHOUT ROWID;
CREATE INDEX archive_open_by_bucket ON archive_open (archive, kind, bucket, owner);
CREATE INDEX archive_open_by_plan ON archive_open (archive, plan) WHERE plan IS NOT NULL;
CREATE INDEX archive_open_by_page ON archive_open (page);

-- Parts that are being closed.
CREATE TABLE archive_plans (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  archive TEXT NOT NULL,
  kind TEXT NOT NULL,
  day TEXT NOT NULL,
  part TEXT NOT NULL,
  class TEXT NOT NULL,
  claims TEXT NOT NULL,
  seed BLOB NOT NULL,
  built TEXT,
  UNIQUE (archive, day, part)
);

-- How many parts a day has, so that a part's name is never used twice.
CREATE TABLE archive_parts (
  archive TEXT NOT NULL,
  day TEXT NOT NULL,
  kind TEXT NOT NULL,
  parts INTEGER NOT NULL,
  PRIMARY KEY (archive, day, kind)
) WITHOUT ROWID;

-- Days of organizations that are closed or being closed, for as long as events for them can arrive.
CREATE TABLE archive_closed (
  archive TEXT NOT NULL,
  day TEXT NOT NULL,
  owner TEXT NOT NULL,
  PRIMARY KEY (archive, day, owner)
) WITHOUT ROWID;

-- Pages whose bytes were moved to a file of their own.
CREATE TABLE archive_staged (
  page INTEGER PRIMARY KEY,
  bytes INTEGER NOT NULL
);

CREATE TABLE archive_facts (
  archive TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (archive, key)
) WITHOUT ROWID;
