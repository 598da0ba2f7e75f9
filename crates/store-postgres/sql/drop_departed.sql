DELETE FROM departed WHERE worker_id = $1 OR credential_hash = $2
