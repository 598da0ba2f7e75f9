-- In microseconds. The one clock that all servers on this database share.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
