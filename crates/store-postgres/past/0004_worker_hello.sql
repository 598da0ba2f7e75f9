UPDATE workers SET
    epoch = r.epoch, name = r.name, tags = r.tags, slots = r.slots, kind = r.kind, session_id = r.session_id,
    boot_id = r.boot_id, state_id = r.state_id, machine = r.machine, version = r.version, platform = r.platform,
    hostname = r.hostname, pid = r.pid, started_at = r.started_at, last_seen_at = $21, no_reconnect = r.no_reconnect,
    server_id = r.server_id, unwilling = r.unwilling, features = r.features, unread = r.unread,
    left_heard = NULL
FROM unnest(
    $1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::uuid[], $8::text[], $9::uuid[],
    $10::text[], $11::text[], $12::text[], $13::text[], $14::bigint[], $15::bigint[], $16::boolean[], $17::uuid[],
    $18::boolean[], $19::text[], $20::boolean[]
) AS r (
    id, epoch, name, tags, slots, kind, session_id, boot_id, state_id, machine, version, platform, hostname, pid,
    started_at, no_reconnect, server_id, unwilling, features, unread
)
WHERE workers.id = r.id
