-- Events that a second source showed: a portal and an organization can show the same event, and so can the own
-- organizations of two accounts. The identity is stored once, with the page that brought it; a row here has the events
-- of one owner and day that another source showed too, so that the counts of each source have them.
CREATE TABLE also_seen (
  id INTEGER PRIMARY KEY,
  owner TEXT NOT NULL,
  account TEXT NOT NULL,
  provider TEXT,
  first_ms INTEGER NOT NULL,
  last_ms INTEGER NOT NULL,
  events INTEGER NOT NULL,
  -- As in identities. NULL once their identities are forgotten: totals still count the events once.
  entries BLOB,
  row_checksum INTEGER
);
CREATE INDEX also_seen_by_time ON also_seen (owner, last_ms);
CREATE INDEX also_seen_by_age ON also_seen (last_ms) WHERE entries IS NOT NULL;
