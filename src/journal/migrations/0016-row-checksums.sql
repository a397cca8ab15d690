-- A checksum of all other columns (R37). Triggers keep it; identities get theirs with the insert.
ALTER TABLE meta ADD COLUMN row_checksum INTEGER;
ALTER TABLE pages ADD COLUMN row_checksum INTEGER;
ALTER TABLE identities ADD COLUMN row_checksum INTEGER;
ALTER TABLE streams ADD COLUMN row_checksum INTEGER;
ALTER TABLE windows ADD COLUMN row_checksum INTEGER;
ALTER TABLE readers ADD COLUMN row_checksum INTEGER;
ALTER TABLE gaps ADD COLUMN row_checksum INTEGER;
ALTER TABLE dead_letters ADD COLUMN row_checksum INTEGER;
