-- The last loss of commits that its server knew of when a worker last came: after that it was asked for all that it keeps. What an older build
-- lets in counts for what it was before.
ALTER TABLE workers ADD COLUMN after_loss INTEGER;
