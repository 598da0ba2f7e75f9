SELECT version FROM jobs WHERE id = ?1
