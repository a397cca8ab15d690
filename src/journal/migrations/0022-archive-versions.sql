-- Further versions of events that are journaled for an archive, so that each is journaled once.
CREATE TABLE archive_versions (
  archive TEXT NOT NULL,
  -- 16 bytes.
  identity BLOB NOT NULL,
  -- A checksum of the version's bytes.
  digest INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  PRIMARY KEY (archive, identity, digest)
) WITHOUT ROWID;
CREATE INDEX archive_versions_by_time ON archive_versions (time_ms);
