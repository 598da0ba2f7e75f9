-- The tags of the token with which a worker was enrolled; empty: it may have any.
ALTER TABLE workers ADD COLUMN allowed_tags TEXT NOT NULL DEFAULT '';
