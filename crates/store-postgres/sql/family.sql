SELECT root, job_id, continues, number, how FROM lineage
WHERE root = coalesce((SELECT root FROM lineage WHERE job_id = $1), $1)
ORDER BY number DESC LIMIT $2
