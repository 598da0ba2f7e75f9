UPDATE workers SET used_epoch = r.epoch FROM unnest($1::uuid[], $2::bigint[]) AS r (id, epoch)
WHERE workers.id = r.id AND workers.used_epoch < r.epoch
