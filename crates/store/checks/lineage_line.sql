SELECT l.job_id AS job, NULL AS ix, l.continues AS other, 'it is not after the one that it goes on for, in the same line' AS what
FROM lineage l LEFT JOIN lineage b ON b.job_id = l.continues
WHERE l.number < 1 OR l.job_id = l.continues
   OR (b.job_id IS NOT NULL AND (b.root <> l.root OR b.number >= l.number))
   OR (b.job_id IS NULL AND l.root <> l.continues AND l.continues >= (SELECT deleted FROM known))
