SELECT name, holder, epoch, until_heard FROM leases ORDER BY name
