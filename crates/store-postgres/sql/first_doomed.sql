-- One server clears, the others leave it to that one.
SELECT job_id FROM doomed ORDER BY job_id LIMIT 1 FOR UPDATE
