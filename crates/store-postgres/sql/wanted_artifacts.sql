-- Which of these sets of files anybody refers to.
SELECT r.id FROM unnest($1::text[]) WITH ORDINALITY AS r (id, place)
WHERE EXISTS (SELECT 1 FROM steps WHERE artifacts = r.id COLLATE "C")
   OR EXISTS (SELECT 1 FROM attempts WHERE late_artifacts = r.id COLLATE "C")
ORDER BY r.place
