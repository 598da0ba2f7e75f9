DELETE FROM servers WHERE beat_at < $1
