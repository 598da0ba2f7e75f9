UPDATE workers SET unwilling = ?3 WHERE id = ?1 AND epoch = ?2
