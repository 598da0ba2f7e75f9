SELECT hash, EXISTS (SELECT 1 FROM jobs WHERE definition = hash) FROM definitions WHERE hash > ?1 ORDER BY hash LIMIT ?2
