-- A worker that was not seen since then, is not connected, and has nothing that may still run.
INSERT OR REPLACE INTO departed (worker_id, credential_hash, at)
SELECT w.id, w.credential_hash, ?3 FROM workers w
WHERE w.id = ?1 AND coalesce(w.last_seen_at, w.created_at) < ?2
  AND (w.left_heard IS NOT NULL OR w.epoch = 0 OR w.removed_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM steps s INDEXED BY steps_held WHERE s.attempt_id IS NOT NULL AND s.worker_id = w.id)
  AND NOT EXISTS (SELECT 1 FROM attempts a INDEXED BY attempts_in_doubt WHERE a.confirmed = 0 AND a.worker_id = w.id)
