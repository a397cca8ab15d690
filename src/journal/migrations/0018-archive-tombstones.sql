-- Events that were erased: not taken into an archive when they are still in the journal, or come again.
CREATE TABLE archive_tombstones (
  archive TEXT NOT NULL,
  owner TEXT NOT NULL,
  -- An id or an identity; empty for all events of the organization.
  event TEXT NOT NULL,
  from_day TEXT NOT NULL,
  to_day TEXT NOT NULL,
  PRIMARY KEY (archive, owner, event, from_day, to_day)
) WITHOUT ROWID;
