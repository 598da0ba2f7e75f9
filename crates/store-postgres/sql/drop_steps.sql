DELETE FROM steps WHERE job_id = $1 AND ix IN (SELECT ix FROM steps WHERE job_id = $1 ORDER BY ix LIMIT $2)
