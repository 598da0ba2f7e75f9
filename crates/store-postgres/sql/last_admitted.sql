SELECT last_admitted FROM slot_groups WHERE name = $1
