-- The id that a request of another machine came with. A request that arrives twice is stored once.
ALTER TABLE requests ADD COLUMN origin TEXT;
CREATE UNIQUE INDEX requests_by_origin ON requests (origin) WHERE origin IS NOT NULL;
