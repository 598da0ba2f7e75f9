INSERT INTO lineage (job_id, continues, root, number, resolves, how, by, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
