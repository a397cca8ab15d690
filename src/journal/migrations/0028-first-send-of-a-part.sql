-- When a part was sent whose answer was lost, if it was planned again: its events may still come.
ALTER TABLE job_parts ADD COLUMN first_sent_ms INTEGER;
-- Earlier versions kept that in the reason. The job was requested before its first send.
UPDATE job_parts SET first_sent_ms = (SELECT requested_ms FROM jobs WHERE id = job_parts.job)
WHERE reason LIKE 'no event of its users was seen; sent again%' OR reason LIKE 'the first answer was lost; sent again%';
