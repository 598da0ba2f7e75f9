INSERT INTO breaker (id, tripped_at, lost, connected, ended_at) VALUES (1, $1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET
    tripped_at = excluded.tripped_at,
    lost = excluded.lost,
    connected = excluded.connected,
    ended_at = excluded.ended_at
