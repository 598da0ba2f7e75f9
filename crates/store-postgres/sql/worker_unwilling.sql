UPDATE workers SET unwilling = r.unwilling FROM unnest($1::uuid[], $2::bigint[], $3::boolean[]) AS r (id, epoch, unwilling)
WHERE workers.id = r.id AND workers.epoch = r.epoch
