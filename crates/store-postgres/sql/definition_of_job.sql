SELECT definition FROM jobs WHERE id = $1
