SELECT name, holder, epoch, until_heard FROM leases WHERE name = ?1
