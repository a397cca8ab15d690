-- What is looked for at every turn of polling: the live windows, and the next ones in the order of time.
CREATE INDEX windows_live ON windows (stream) WHERE live = 1;
CREATE INDEX windows_by_time ON windows (state, from_ms) WHERE live = 0;
CREATE INDEX streams_by_account ON streams (account);
