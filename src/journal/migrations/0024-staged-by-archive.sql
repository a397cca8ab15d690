-- Each archive stages pages in a place of its own, so a page may be staged more than once.
CREATE TABLE archive_staged_pages (
  archive TEXT NOT NULL,
  page INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (archive, page)
) WITHOUT ROWID;
INSERT INTO archive_staged_pages (archive, page, bytes)
  SELECT DISTINCT o.archive, s.page, s.bytes FROM archive_staged s JOIN archive_open o ON o.page = s.page;
DROP TABLE archive_staged;
ALTER TABLE archive_staged_pages RENAME TO archive_staged;
CREATE INDEX archive_staged_by_page ON archive_staged (page);
