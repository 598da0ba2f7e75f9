SELECT ix FROM steps WHERE job_id = ?1 AND name = ?2
