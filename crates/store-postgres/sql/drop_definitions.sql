DELETE FROM definitions WHERE hash = ANY ($1::bytea[]) AND NOT EXISTS (SELECT 1 FROM jobs WHERE definition = hash)
