-- One row a job: an import that was started here, or that was found by its events.
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY,
  -- The import of the config that it belongs to.
  import TEXT,
  account TEXT NOT NULL,
  organization TEXT,
  kind TEXT NOT NULL CHECK (kind IN ('application', 'workday')),
  -- The application or Workday integration; unknown for a job whose events do not name it.
  source TEXT,
  request TEXT NOT NULL,
  origin TEXT NOT NULL CHECK (origin IN ('command', 'api', 'schedule', 'elsewhere')),
  requested_by TEXT NOT NULL,
  requested_ms INTEGER NOT NULL,
  -- When the answer to the start must be there; after it the start is uncertain.
  answer_by_ms INTEGER NOT NULL,
  service_job TEXT,
  state TEXT NOT NULL CHECK (state IN ('requested', 'running', 'quiet', 'finished', 'failed', 'uncertain')),
  state_ms INTEGER NOT NULL,
  reason TEXT,
  quiet_after_ms INTEGER NOT NULL,
  finish_after_ms INTEGER NOT NULL,
  -- When something new was last seen of it, by our clock.
  active_ms INTEGER NOT NULL,
  first_event_ms INTEGER,
  last_event_ms INTEGER,
  -- Set when it no longer holds up its schedule.
  ended_ms INTEGER,
  results_digest TEXT,
  next_poll_ms INTEGER
);
CREATE UNIQUE INDEX jobs_by_service_job ON jobs (service_job, account) WHERE service_job IS NOT NULL;
-- No two runs of one import at once.
CREATE UNIQUE INDEX jobs_open ON jobs (account, coalesce(organization, ''), source)
  WHERE ended_ms IS NULL AND origin <> 'elsewhere';

CREATE TABLE job_events (
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  identity TEXT NOT NULL,
  user INTEGER,
  event_id TEXT,
  event_type TEXT NOT NULL,
  timestamp TEXT NOT NULL,
  timestamp_ms INTEGER NOT NULL,
  outcome TEXT,
  reason TEXT,
  PRIMARY KEY (job, identity)
) WITHOUT ROWID;
CREATE INDEX job_events_by_time ON job_events (job, timestamp_ms);
CREATE INDEX job_events_by_user ON job_events (user);

CREATE TABLE job_users (
  id INTEGER PRIMARY KEY,
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  user_id TEXT,
  username TEXT COLLATE NOCASE,
  email TEXT COLLATE NOCASE,
  outcome TEXT NOT NULL CHECK (outcome IN ('created', 'updated', 'reactivated', 'failed', 'pending')),
  reason TEXT,
  event TEXT,
  timestamp TEXT,
  -- Whether events or a Workday result told it; events know better.
  told_by TEXT NOT NULL CHECK (told_by IN ('events', 'results'))
);
CREATE INDEX job_users_by_id ON job_users (job, user_id);
CREATE INDEX job_users_by_name ON job_users (job, username);
CREATE INDEX job_users_by_email ON job_users (job, email);

-- Every scheduled run, whatever became of it; one for each local date and time.
CREATE TABLE import_runs (
  import TEXT NOT NULL,
  local TEXT NOT NULL,
  scheduled_ms INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('started', 'missed', 'overlapped')),
  job INTEGER REFERENCES jobs (id),
  reason TEXT,
  PRIMARY KEY (import, local),
  UNIQUE (import, scheduled_ms)
) WITHOUT ROWID;

-- Up to where an import's schedule has been looked at.
CREATE TABLE import_schedules (
  import TEXT PRIMARY KEY,
  schedule TEXT NOT NULL,
  considered_ms INTEGER NOT NULL
) WITHOUT ROWID;
