-- What is old goes: jobs in two steps, so that no transaction has to take away more than a little.

-- Jobs that are off the record, and of which there is something left to take away.
CREATE TABLE doomed (
    job_id BLOB    NOT NULL PRIMARY KEY,
    at     INTEGER NOT NULL
) WITHOUT ROWID;

-- Workers that were deleted for not having been seen. Their credentials are still good for one thing: to be told so.
CREATE TABLE departed (
    worker_id       BLOB    NOT NULL PRIMARY KEY,
    credential_hash BLOB    NOT NULL UNIQUE,
    at              INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX departed_by_age ON departed (at);

-- A definition that no job has may go.
CREATE INDEX jobs_of_definition ON jobs (definition);
CREATE INDEX idempotency_of_job ON idempotency (job_id);
CREATE INDEX quarantine_of_job ON quarantine (job_id) WHERE job_id IS NOT NULL;
-- Few at a time: what runs, and what was given up without proof.
CREATE INDEX attempts_in_doubt ON attempts (job_id, worker_id) WHERE confirmed = 0;
