-- What one server at a time does for all of them: who, in which epoch, and until when in hearing time.
CREATE TABLE leases (
    name        TEXT    NOT NULL PRIMARY KEY,
    holder      BLOB    NOT NULL,
    epoch       INTEGER NOT NULL,
    until_heard INTEGER NOT NULL
) WITHOUT ROWID;
