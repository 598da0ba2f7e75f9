SELECT number, confirmed, state = 'ended' OR late_outcome IS NOT NULL FROM attempts WHERE id = ?1
