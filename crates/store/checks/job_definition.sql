SELECT j.id AS job, NULL AS ix, NULL AS other, 'the text of its task ' || j.task || ' is not on record' AS what
FROM jobs j WHERE NOT EXISTS (SELECT 1 FROM definitions d WHERE d.hash = j.definition)
