-- Evidence, not a state: its worker said that its process runs.
UPDATE attempts SET begun = true
FROM unnest($1::uuid[], $2::bigint[]) AS r (id, fence)
WHERE attempts.id = r.id AND attempts.fence = r.fence
