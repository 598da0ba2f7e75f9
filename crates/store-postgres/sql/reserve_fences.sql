-- $1: how many, $2: not below. Returns the last of them. Zero is no fence, so that "none yet" has a number too.
UPDATE counters SET value = greatest(value + 1, $2) + $1 - 1 WHERE name = 'fence' RETURNING value
