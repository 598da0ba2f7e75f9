UPDATE workers SET left_heard = r.heard FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS r (id, epoch, heard)
WHERE workers.id = r.id AND workers.epoch = r.epoch
