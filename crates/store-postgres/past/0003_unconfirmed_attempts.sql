SELECT a.id, a.ix, a.number, a.fence, a.worker_id, w.name, a.state, a.confirmed, a.started_at, a.ended_at,
       a.exit_code, a.signal, a.error_code, a.error_message, a.late_outcome, a.cpu_ms, a.memory_bytes_max, a.cleanup
FROM attempts a LEFT JOIN workers w ON w.id = a.worker_id
WHERE a.job_id = $1 AND NOT a.confirmed AND a.ended_at IS NOT NULL
ORDER BY a.ix, a.number, a.id
