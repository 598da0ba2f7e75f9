-- All jobs that go on for the same first one, in the order in which they did: no two may go on at the same time.
ALTER TABLE lineage ADD COLUMN root BLOB NOT NULL DEFAULT x'';
ALTER TABLE lineage ADD COLUMN number INTEGER NOT NULL DEFAULT 0;

WITH RECURSIVE line (job_id, root) AS (
    SELECT job_id, continues FROM lineage WHERE continues NOT IN (SELECT job_id FROM lineage)
    UNION ALL
    SELECT lineage.job_id, line.root FROM lineage JOIN line ON lineage.continues = line.job_id
), placed AS (
    SELECT line.job_id, line.root, row_number() OVER (PARTITION BY line.root ORDER BY lineage.at, line.job_id) AS number
    FROM line JOIN lineage ON lineage.job_id = line.job_id
)
UPDATE lineage SET root = placed.root, number = placed.number FROM placed WHERE placed.job_id = lineage.job_id;

CREATE UNIQUE INDEX lineage_family ON lineage (root, number);
