-- Links to a conversation for people without a key: under a hash of the link's secret, with who gave it.
CREATE TABLE shares (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    principal TEXT NOT NULL,
    created REAL NOT NULL,
    expires REAL NOT NULL
) STRICT;

CREATE INDEX shares_by_conversation ON shares (conversation_id);
