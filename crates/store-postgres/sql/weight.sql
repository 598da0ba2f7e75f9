SELECT (SELECT count(*) FROM steps WHERE job_id = $1),
       (SELECT count(*) FROM attempts WHERE job_id = $1),
       (SELECT count(*) FROM events WHERE job_id = $1),
       (SELECT coalesce(sum(c.last_seq - c.first_seq + 1), 0)::bigint
        FROM attempts a JOIN log_chunks c ON c.attempt_id = a.id WHERE a.job_id = $1),
       (SELECT coalesce(sum(octet_length(c.blocks)), 0)::bigint
        FROM attempts a JOIN log_chunks c ON c.attempt_id = a.id WHERE a.job_id = $1)
