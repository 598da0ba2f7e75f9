INSERT INTO secrets (name, sealed, set_at, set_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, set_at = excluded.set_at, set_by = excluded.set_by
