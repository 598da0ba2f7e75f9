INSERT INTO quarantine (job_id, at, event, error) VALUES (?1, ?2, ?3, ?4)
