INSERT INTO lineage (job_id, continues, resolves, how, by, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
