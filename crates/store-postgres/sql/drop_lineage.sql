DELETE FROM lineage WHERE job_id = ANY ($1::uuid[])
