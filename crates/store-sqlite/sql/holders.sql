SELECT DISTINCT worker_id FROM steps INDEXED BY steps_held WHERE attempt_id IS NOT NULL ORDER BY worker_id
