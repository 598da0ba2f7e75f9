SELECT i.token_id, i.key, i.request_hash, i.job_id, i.created_at
FROM unnest($1::uuid[], $2::text[]) AS r (token_id, key)
JOIN idempotency i ON i.token_id = r.token_id AND i.key = r.key
