-- When an event came late into the time of an unreadable event without a name, after that gap was found.
ALTER TABLE gaps ADD COLUMN came_ms INTEGER;
CREATE INDEX gaps_of_events ON gaps (organization) WHERE reason = 'unreadable';

-- An event without a name was a gap of each organization that it may be of, and counted as often. It counts once.
UPDATE gaps SET events = 0, row_checksum = NULL WHERE reason = 'unreadable' AND detail LIKE 'one event %' AND id NOT IN (
  SELECT MIN(id) FROM gaps GROUP BY account, provider, services, from_ms, to_ms, reason, detail, found_ms);
