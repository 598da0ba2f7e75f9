INSERT INTO workers (id, name, credential_hash, state_id, created_at, allowed_tags)
SELECT ?1, ?2, ?3, ?4, ?5, tags FROM tokens WHERE hash = ?6
