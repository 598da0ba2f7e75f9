SELECT name, holder, epoch, until_heard FROM leases WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE
