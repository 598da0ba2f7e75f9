SELECT state FROM steps WHERE job_id = ?1 AND ix = ?2
