SELECT l.root, l.number FROM unnest($1::uuid[], $2::bigint[]) AS r (root, number)
JOIN lineage l ON l.root = r.root AND l.number = r.number
