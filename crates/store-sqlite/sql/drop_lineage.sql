DELETE FROM lineage WHERE job_id = ?1
