-- Quotes made readable (JSON), under a hash of all that they depended on, the group included.
CREATE TABLE standalone (
    key TEXT PRIMARY KEY,
    collection TEXT NOT NULL,
    version TEXT NOT NULL,
    document_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    created REAL NOT NULL,
    made TEXT NOT NULL
) STRICT;

CREATE INDEX standalone_by_document ON standalone (collection, document_id);
