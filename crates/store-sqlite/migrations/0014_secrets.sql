-- Secrets, sealed with the servers' key, and what workers can do: not each can be handed one.
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    sealed BLOB NOT NULL,
    set_at INTEGER NOT NULL,
    set_by TEXT NOT NULL
);

ALTER TABLE workers ADD COLUMN features TEXT NOT NULL DEFAULT '[]';
