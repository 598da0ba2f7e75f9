UPDATE workers SET left_heard = ?2 WHERE id = ?1
