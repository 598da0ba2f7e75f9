-- The first one stays. Its own word on its end is proof that it is over. One that ended in time only repeats itself.
UPDATE attempts SET late_outcome = r.outcome, late_at = r.at, late_artifacts = r.artifacts, confirmed = true
FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[]) AS r (id, outcome, at, artifacts)
WHERE attempts.id = r.id AND attempts.late_outcome IS NULL AND attempts.state <> 'ended'
