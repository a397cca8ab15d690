-- When the first whole pass about a window began; of merged windows the latest. Null in rows of earlier versions.
ALTER TABLE windows ADD COLUMN first_ms INTEGER;
