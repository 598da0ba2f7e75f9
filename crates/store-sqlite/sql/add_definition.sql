INSERT INTO definitions (hash, source, settings) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING
