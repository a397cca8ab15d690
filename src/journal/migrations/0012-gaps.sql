-- Stretches of an organization's time line whose events are missing, or may be, and why. Never trimmed.
CREATE TABLE gaps (
  id INTEGER PRIMARY KEY,
  account TEXT NOT NULL,
  provider TEXT,
  -- Empty for a provider's portal and for the key's own organization.
  organization TEXT NOT NULL,
  services TEXT NOT NULL,
  from_ms INTEGER NOT NULL,
  to_ms INTEGER NOT NULL,
  reason TEXT NOT NULL CHECK (reason IN ('expired', 'refused', 'unchecked', 'unreadable')),
  detail TEXT NOT NULL,
  events INTEGER,
  found_ms INTEGER NOT NULL
);
CREATE INDEX gaps_by_time ON gaps (account, to_ms);

-- Why an event is kept apart. NULL: it belongs to an organization that was not asked for.
ALTER TABLE unattributed ADD COLUMN reason TEXT;
