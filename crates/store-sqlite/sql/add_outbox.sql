INSERT INTO outbox (id, job_id, kind, body, created_at, next_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
