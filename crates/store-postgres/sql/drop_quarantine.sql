DELETE FROM quarantine WHERE job_id = ANY ($1::uuid[])
