INSERT INTO definitions (hash, source, settings)
SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[])
ON CONFLICT (hash) DO NOTHING
