UPDATE workers SET used_epoch = ?2 WHERE id = ?1 AND used_epoch < ?2
