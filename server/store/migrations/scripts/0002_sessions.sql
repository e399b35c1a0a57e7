-- Who has opened the page with a key; only a hash of what the cookie holds is kept.
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    key_id TEXT NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    expires REAL NOT NULL
) STRICT;
