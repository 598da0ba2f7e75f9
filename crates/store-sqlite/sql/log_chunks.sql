-- From the chunk that holds ?2 on: the last one that begins at or before it, if it reaches that far.
SELECT first_seq, last_seq, blocks FROM log_chunks
WHERE attempt_id = ?1
  AND first_seq >= coalesce((SELECT max(first_seq) FROM log_chunks WHERE attempt_id = ?1 AND first_seq <= ?2), 0)
  AND last_seq >= ?2
ORDER BY first_seq
