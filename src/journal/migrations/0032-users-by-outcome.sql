-- Asked every second whether any user of a job waits: a list may have 200,000.
CREATE INDEX job_users_by_outcome ON job_users (job, outcome, number);
