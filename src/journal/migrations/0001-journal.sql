CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- One row a page. The events' bytes are in bodies: trimming frees them and leaves the rest.
CREATE TABLE pages (
  number INTEGER PRIMARY KEY,
  account TEXT NOT NULL,
  organization TEXT,
  provider TEXT,
  reader TEXT,
  fetched_ms INTEGER NOT NULL,
  newest_ms INTEGER NOT NULL,
  events INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  twins TEXT,
  checksum BLOB NOT NULL,
  rolling TEXT NOT NULL
);

CREATE TABLE bodies (
  page INTEGER PRIMARY KEY,
  body BLOB NOT NULL
);

-- Identities of a page's events, a row for each organization: 16 bytes identity, 4 bytes digest of the
-- event's bytes, 4 bytes milliseconds after first_ms, little-endian.
CREATE TABLE identities (
  id INTEGER PRIMARY KEY,
  owner TEXT NOT NULL,
  first_ms INTEGER NOT NULL,
  last_ms INTEGER NOT NULL,
  page INTEGER NOT NULL,
  entries BLOB NOT NULL
);
CREATE INDEX identities_by_time ON identities (owner, last_ms, first_ms);

CREATE TABLE streams (
  id INTEGER PRIMARY KEY,
  account TEXT NOT NULL,
  provider TEXT,
  organizations TEXT NOT NULL,
  services TEXT NOT NULL,
  key TEXT NOT NULL UNIQUE
);

CREATE TABLE windows (
  id INTEGER PRIMARY KEY,
  stream INTEGER NOT NULL REFERENCES streams (id),
  from_ms INTEGER NOT NULL,
  to_ms INTEGER NOT NULL,
  live INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('unread', 'read', 'sealed', 'expired', 'refused')),
  pass TEXT,
  asked_ms INTEGER,
  sweeps INTEGER NOT NULL,
  next_ms INTEGER,
  api_count INTEGER,
  held_count INTEGER,
  late INTEGER NOT NULL,
  repeated INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  reason TEXT,
  reader TEXT
);
CREATE INDEX windows_by_state ON windows (state, next_ms);
CREATE INDEX windows_by_stream ON windows (stream, from_ms);

CREATE TABLE readers (
  name TEXT PRIMARY KEY,
  page INTEGER NOT NULL,
  event INTEGER NOT NULL,
  hash TEXT NOT NULL,
  state TEXT,
  bound TEXT,
  committed_ms INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE dead_letters (
  id INTEGER PRIMARY KEY,
  reader TEXT NOT NULL,
  page INTEGER NOT NULL,
  event INTEGER NOT NULL,
  identity TEXT NOT NULL,
  reason TEXT NOT NULL,
  stored_ms INTEGER NOT NULL,
  account TEXT NOT NULL,
  organization TEXT,
  provider TEXT,
  service TEXT NOT NULL,
  event_type TEXT NOT NULL,
  timestamp TEXT NOT NULL,
  fetched_ms INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  UNIQUE (reader, page, event)
);

-- Events of an organization that nobody asked for: kept apart, not delivered.
CREATE TABLE unattributed (
  digest TEXT PRIMARY KEY,
  account TEXT NOT NULL,
  stream INTEGER NOT NULL,
  seen_ms INTEGER NOT NULL,
  bytes BLOB NOT NULL
) WITHOUT ROWID;

-- Late events by delay: how many arrived at most so long after their own time.
CREATE TABLE lateness (
  account TEXT NOT NULL,
  at_most_ms INTEGER NOT NULL,
  events INTEGER NOT NULL,
  PRIMARY KEY (account, at_most_ms)
) WITHOUT ROWID;

-- The organizations of an account as discovery last saw them.
CREATE TABLE organizations (
  account TEXT NOT NULL,
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'vanished', 'refused')),
  reason TEXT,
  next_ms INTEGER,
  first_seen_ms INTEGER NOT NULL,
  last_seen_ms INTEGER NOT NULL,
  last_event_ms INTEGER,
  events INTEGER NOT NULL DEFAULT 0,
  traffic REAL NOT NULL DEFAULT 0,
  PRIMARY KEY (account, id)
) WITHOUT ROWID;

-- What a changing command asks of the running process.
CREATE TABLE requests (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  made_ms INTEGER NOT NULL,
  done_ms INTEGER,
  result TEXT
);

CREATE TABLE drift (
  service TEXT NOT NULL,
  kind TEXT NOT NULL,
  path TEXT NOT NULL,
  first_ms INTEGER NOT NULL,
  last_ms INTEGER NOT NULL,
  events INTEGER NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (service, kind, path, detail)
) WITHOUT ROWID;
