SELECT ix FROM steps WHERE job_id = $1 AND name = $2 ORDER BY ix LIMIT 1
