-- Evidence, not a state: what was given up is now known to be over.
UPDATE attempts SET confirmed = true
FROM unnest($1::uuid[], $2::bigint[]) AS r (id, fence)
WHERE attempts.id = r.id AND attempts.fence = r.fence
