-- Names of users as they are compared: folded by the program, because SQLite folds ASCII alone. No name is ''. Rows of
-- earlier versions with other letters have NULL until the program looks for one of their job's users.
ALTER TABLE job_users ADD COLUMN name_key TEXT;
ALTER TABLE job_users ADD COLUMN email_key TEXT;
UPDATE job_users SET name_key = coalesce(lower(username), ''), email_key = coalesce(lower(email), '')
WHERE NOT coalesce(username, '') || coalesce(email, '') GLOB '*[^ -~]*';
DROP INDEX job_users_by_name;
DROP INDEX job_users_by_email;
CREATE INDEX job_users_by_name ON job_users (job, name_key);
CREATE INDEX job_users_by_email ON job_users (job, email_key);
CREATE INDEX job_users_unfolded ON job_users (job) WHERE name_key IS NULL;

-- Events that are too large to be read: a job's view counts them.
CREATE INDEX job_events_passed_over ON job_events (job) WHERE reason = 'passed over: too large to be read';
