-- Set before a request is carried out, so that a request that was interrupted can be told from a new one.
ALTER TABLE requests ADD COLUMN started_ms INTEGER;
-- The destination's own answer, and the reason without the parts that differ from event to event.
ALTER TABLE dead_letters ADD COLUMN answer TEXT;
ALTER TABLE dead_letters ADD COLUMN reason_group TEXT;
UPDATE dead_letters SET reason_group = reason;
CREATE INDEX dead_letters_by_group ON dead_letters (reader, reason_group);
