INSERT INTO lineage (job_id, continues, root, number, resolves, how, by, at)
SELECT * FROM unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::boolean[], $6::text[], $7::text[], $8::bigint[]
)
