-- Accounts for every offered user: what was offered, in which part it was posted, what became of it.
CREATE TABLE job_users_wider (
  id INTEGER PRIMARY KEY,
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  user_id TEXT,
  username TEXT COLLATE NOCASE,
  email TEXT COLLATE NOCASE,
  outcome TEXT NOT NULL CHECK (outcome IN ('created', 'updated', 'reactivated', 'failed', 'skipped', 'pending')),
  reason TEXT,
  event TEXT,
  timestamp TEXT,
  -- Whether events, a Workday result, the answer to the start or the choice of users decided; events know best.
  told_by TEXT NOT NULL CHECK (told_by IN ('events', 'results', 'answer', 'choice')),
  -- The place in the offer; null for users that only events name.
  number INTEGER,
  -- What is posted, as JSON; null where the service reads the source itself.
  entry TEXT,
  -- The part of the job that carries the user; null for one that is not posted.
  part INTEGER,
  -- STAGED, ACTIVATED …, as the last event said.
  user_state TEXT,
  activated_ms INTEGER
);
INSERT INTO job_users_wider (id, job, user_id, username, email, outcome, reason, event, timestamp, told_by)
  SELECT id, job, user_id, username, email, outcome, reason, event, timestamp, told_by FROM job_users;
DROP TABLE job_users;
ALTER TABLE job_users_wider RENAME TO job_users;
CREATE INDEX job_users_by_id ON job_users (job, user_id);
CREATE INDEX job_users_by_name ON job_users (job, username);
CREATE INDEX job_users_by_email ON job_users (job, email);
CREATE INDEX job_users_by_part ON job_users (job, part);

-- When the offer was stored; null while it is not known.
ALTER TABLE jobs ADD COLUMN offered_ms INTEGER;
-- The process that sends the job's parts.
ALTER TABLE jobs ADD COLUMN sender TEXT;

-- One request to the service each. A Workday import is posted in several, and a refused one is halved.
CREATE TABLE job_parts (
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  part INTEGER NOT NULL,
  account TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('planned', 'sent', 'taken', 'refused', 'uncertain')),
  service_job TEXT,
  -- When it was sent, or when a planned one may be sent.
  at_ms INTEGER NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0,
  reason TEXT,
  results_digest TEXT,
  next_poll_ms INTEGER,
  PRIMARY KEY (job, part)
) WITHOUT ROWID;
CREATE UNIQUE INDEX job_parts_by_service_job ON job_parts (service_job, account) WHERE service_job IS NOT NULL;
INSERT INTO job_parts (job, part, account, state, service_job, at_ms, next_poll_ms, results_digest)
  SELECT id, 0, account, CASE WHEN service_job IS NULL THEN 'uncertain' ELSE 'taken' END, service_job, requested_ms,
    next_poll_ms, results_digest
  FROM jobs WHERE origin <> 'elsewhere' AND ended_ms IS NULL;
