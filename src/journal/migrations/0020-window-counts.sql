-- The service's count and ours by organization, where a window's query reads several organizations or names none.
ALTER TABLE windows ADD COLUMN counts TEXT;
