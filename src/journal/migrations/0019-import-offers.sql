-- Why an import's offer is not known, or why it may contain users that the import leaves out.
ALTER TABLE jobs ADD COLUMN offer_note TEXT;
