DELETE FROM definitions WHERE hash = ?1
