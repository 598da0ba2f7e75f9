SELECT (SELECT continues FROM lineage WHERE job_id = $1),
       (SELECT job_id FROM lineage WHERE continues = $1 AND resolves)
