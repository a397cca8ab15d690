-- Who ended a job that was not seen to finish; its view is "ended", not "finished".
ALTER TABLE jobs ADD COLUMN ended_by TEXT;
UPDATE jobs SET ended_by = substr(reason, 10) WHERE state = 'finished' AND reason LIKE 'ended by %';
