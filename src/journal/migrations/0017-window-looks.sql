-- How many whole passes about a window have begun. "Complete" needs two: one pass compared with itself proves nothing.
ALTER TABLE windows ADD COLUMN looks INTEGER NOT NULL DEFAULT 0;
