SELECT id, name, epoch, draining, kind, tags, slots, session_id, boot_id, state_id, machine, version, platform, hostname, pid,
       created_at, started_at, last_seen_at, removed_at, left_heard, used_epoch, allowed_tags, server_id, unwilling, features
FROM workers ORDER BY name, id
