SELECT worker_id FROM departed WHERE credential_hash = $1
