INSERT INTO meta (key, value) SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (key) DO UPDATE SET value = excluded.value
