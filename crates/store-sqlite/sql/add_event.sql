INSERT INTO events (id, job_id, ix, at, kind, verb, "from", "to", worker_id, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
