INSERT INTO leases (name, holder, epoch, until_heard) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, epoch = excluded.epoch, until_heard = excluded.until_heard
