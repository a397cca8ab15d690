-- The wording of an erasure, with its salt: the log names its hash when a day is closed without the erased events.
ALTER TABLE archive_tombstones ADD COLUMN reason TEXT NOT NULL DEFAULT '';
UPDATE archive_tombstones SET reason =
  '{"salt":"' || lower(hex(randomblob(16))) || '","reason":"This erasure was ordered by an earlier version, which did not keep its reason."}';
-- An erasure without an end kept all later events out. Its own day is not known: it was today at the latest.
UPDATE archive_tombstones SET to_day = date('now') WHERE event = '' AND to_day = '9999-12-31';
