SELECT name, last_admitted FROM slot_groups WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE
