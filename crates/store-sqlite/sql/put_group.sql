INSERT INTO slot_groups (name, last_admitted, admitted_at) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET last_admitted = excluded.last_admitted, admitted_at = excluded.admitted_at
