-- Two organizations may have jobs with the same id of the service.
DROP INDEX jobs_by_service_job;
CREATE UNIQUE INDEX jobs_by_service_job ON jobs (service_job, account, COALESCE(organization, ''))
  WHERE service_job IS NOT NULL;
DROP INDEX job_parts_by_service_job;
CREATE INDEX job_parts_by_service_job ON job_parts (service_job, account) WHERE service_job IS NOT NULL;
-- Events have the id in lower case.
CREATE INDEX jobs_by_folded_service_job ON jobs (service_job COLLATE NOCASE) WHERE service_job IS NOT NULL;
CREATE INDEX job_parts_by_folded_service_job ON job_parts (service_job COLLATE NOCASE)
  WHERE service_job IS NOT NULL;
-- When the event happened that told a user's state: the newest one counts, in whatever order they are read.
ALTER TABLE job_users ADD COLUMN state_ms INTEGER;
