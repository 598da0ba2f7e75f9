-- A worker that was not seen since then, is not connected, and has nothing that may still run.
SELECT w.credential_hash FROM workers w
WHERE w.id = $1 AND coalesce(w.last_seen_at, w.created_at) < $2
  AND (w.left_heard IS NOT NULL OR w.epoch = 0 OR w.removed_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.attempt_id IS NOT NULL AND s.worker_id = w.id)
  AND NOT EXISTS (SELECT 1 FROM attempts a WHERE NOT a.confirmed AND a.worker_id = w.id)
FOR UPDATE OF w
