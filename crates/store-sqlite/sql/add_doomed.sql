INSERT INTO doomed (job_id, at) VALUES (?1, ?2) ON CONFLICT (job_id) DO NOTHING
