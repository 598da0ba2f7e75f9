DELETE FROM outbox WHERE job_id = ?1
