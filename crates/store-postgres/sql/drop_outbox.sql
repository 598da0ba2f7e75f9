DELETE FROM outbox WHERE job_id = ANY ($1::uuid[])
