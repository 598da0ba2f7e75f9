DELETE FROM quarantine WHERE job_id = ?1
