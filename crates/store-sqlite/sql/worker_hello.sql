UPDATE workers SET
    epoch = ?16, name = ?2, tags = ?3, slots = ?4, kind = ?5, session_id = ?6, boot_id = ?7, state_id = ?8,
    machine = ?9, version = ?10, platform = ?11, hostname = ?12, pid = ?13, started_at = ?14, last_seen_at = ?15,
    no_reconnect = ?17, server_id = ?18, unwilling = ?19, features = ?20, unread = ?21, after_loss = ?22,
    left_heard = NULL
WHERE id = ?1 AND epoch < ?16
