INSERT INTO workers (id, name, credential_hash, state_id, created_at, allowed_tags)
SELECT $1::uuid, $2::text, $3::bytea, $4::uuid, $5::bigint, tags FROM tokens WHERE hash = $6
