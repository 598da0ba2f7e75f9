UPDATE logs SET complete = 1, closed = ?2, close_at = NULL WHERE attempt_id = ?1 AND NOT complete
