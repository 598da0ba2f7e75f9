SELECT version FROM triggers WHERE id = ?1
