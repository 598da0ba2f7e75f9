-- From the chunk that holds $2 on: the last one that begins at or before it, if it reaches that far. The first one whatever its
-- size, and those after it up to $3 bytes in all; $4 bounds how many are looked at.
SELECT first_seq, last_seq, blocks FROM (
    SELECT first_seq, last_seq, blocks,
           row_number() OVER (ORDER BY first_seq) AS place,
           sum(octet_length(blocks)) OVER (ORDER BY first_seq) AS bytes
    FROM (
        SELECT first_seq, last_seq, blocks FROM log_chunks
        WHERE attempt_id = $1
          AND first_seq >= coalesce((SELECT max(first_seq) FROM log_chunks WHERE attempt_id = $1 AND first_seq <= $2), 0)
          AND last_seq >= $2
        ORDER BY first_seq LIMIT $4
    ) AS few
) AS summed
WHERE place = 1 OR bytes <= $3
ORDER BY first_seq
