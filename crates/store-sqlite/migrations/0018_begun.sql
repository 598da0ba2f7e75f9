-- Its worker said that its process runs: what the same worker says later, from a disk that was put back, does not count then.
ALTER TABLE attempts ADD COLUMN begun INTEGER NOT NULL DEFAULT 0;
