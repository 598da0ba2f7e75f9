-- Concurrency groups: which jobs wait, and which may have a slot. Nothing counts them.
ALTER TABLE jobs ADD COLUMN slot_group TEXT;
-- None while it waits.
ALTER TABLE jobs ADD COLUMN admitted_at INTEGER;
-- Something of it was given up and may still run.
ALTER TABLE jobs ADD COLUMN strays INTEGER NOT NULL DEFAULT 0;

CREATE INDEX jobs_in_line ON jobs (slot_group, priority DESC, created_at, id)
    WHERE slot_group IS NOT NULL AND admitted_at IS NULL AND check_at IS NOT NULL;
CREATE INDEX jobs_with_slots ON jobs (slot_group, id)
    WHERE slot_group IS NOT NULL AND admitted_at IS NOT NULL AND check_at IS NOT NULL;
CREATE INDEX jobs_astray ON jobs (slot_group, ended_at)
    WHERE slot_group IS NOT NULL AND admitted_at IS NOT NULL AND ended_at IS NOT NULL AND strays = 1;

-- The job that was last admitted to each group: two who admit at once are told apart by it.
CREATE TABLE slot_groups (
    name TEXT PRIMARY KEY,
    last_admitted BLOB NOT NULL,
    admitted_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX slot_groups_by_age ON slot_groups (admitted_at);
