DELETE FROM departed WHERE at < $1
