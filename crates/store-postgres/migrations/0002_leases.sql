-- What one server at a time does for all of them: who, in which epoch, and until when in hearing time. A build that does not know
-- them does its part as before, by the versions of the rows.
CREATE TABLE leases (
    name        text   COLLATE "C" PRIMARY KEY,
    holder      uuid   NOT NULL,
    epoch       bigint NOT NULL,
    until_heard bigint NOT NULL
);
