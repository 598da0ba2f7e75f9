SELECT 1 FROM lineage WHERE root = ?1 AND number = ?2
