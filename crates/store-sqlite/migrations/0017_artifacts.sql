-- Files that steps leave: each step names the set that its last attempt left, so that a set which nobody names can go.
ALTER TABLE steps ADD COLUMN artifacts TEXT;

CREATE INDEX steps_artifacts ON steps (artifacts) WHERE artifacts IS NOT NULL;
CREATE INDEX attempts_late_artifacts ON attempts (
    CASE WHEN json_valid(late_outcome) THEN json_extract(late_outcome, '$.artifacts.stored.id') END
) WHERE late_outcome IS NOT NULL;
