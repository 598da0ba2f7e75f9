-- The counter is a floor: whoever deletes events writes it, so that no number is given twice.
SELECT max(coalesce((SELECT max(id) FROM events), 0), coalesce((SELECT value FROM counters WHERE name = 'event'), 0))
