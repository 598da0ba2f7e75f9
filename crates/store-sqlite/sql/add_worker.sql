INSERT INTO workers (id, name, credential_hash, state_id, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
