-- Whether anybody refers to this set of files. The expression is that of the index.
SELECT EXISTS (SELECT 1 FROM steps WHERE artifacts = ?1)
    OR EXISTS (
        SELECT 1 FROM attempts
        WHERE late_outcome IS NOT NULL
            AND CASE WHEN json_valid(late_outcome) THEN json_extract(late_outcome, '$.artifacts.stored.id') END = ?1
    )
