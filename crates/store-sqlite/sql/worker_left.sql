UPDATE workers SET left_heard = ?3 WHERE id = ?1 AND epoch = ?2
