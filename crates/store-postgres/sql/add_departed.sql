INSERT INTO departed (worker_id, credential_hash, at) VALUES ($1, $2, $3)
