UPDATE workers SET draining = ?2 WHERE id = ?1
