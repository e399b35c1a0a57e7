CREATE TABLE conversations (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    collection TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL
) STRICT;

CREATE INDEX conversations_by_update ON conversations (updated DESC);

-- A turn without a conversation comes from a client that keeps its own history.
CREATE TABLE turns (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    conversation_id TEXT REFERENCES conversations (id) ON DELETE CASCADE,
    collection TEXT NOT NULL,
    question TEXT NOT NULL,
    search_for TEXT,
    status TEXT NOT NULL CHECK (status IN ('pending', 'answered', 'quoted', 'refused', 'failed', 'interrupted')),
    answer TEXT NOT NULL DEFAULT '',
    rewrite TEXT,
    evidence TEXT,
    ending TEXT,
    created REAL NOT NULL,
    finished REAL,
    replaced INTEGER NOT NULL DEFAULT 0,
    runner TEXT NOT NULL
) STRICT;

CREATE INDEX turns_by_conversation ON turns (conversation_id, n);
CREATE INDEX turns_pending ON turns (runner) WHERE status = 'pending';

CREATE TABLE feedback (
    turn_id TEXT PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
    rating TEXT NOT NULL CHECK (rating IN ('up', 'down')),
    reason TEXT NOT NULL,
    comment TEXT NOT NULL,
    created REAL NOT NULL
) STRICT;

CREATE TABLE traces (
    turn_id TEXT PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
    trace TEXT NOT NULL
) STRICT;

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    created REAL NOT NULL,
    used REAL,
    revoked REAL
) STRICT;

CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    collection TEXT NOT NULL,
    state TEXT NOT NULL,
    stage TEXT NOT NULL DEFAULT '',
    done INTEGER NOT NULL DEFAULT 0,
    total INTEGER NOT NULL DEFAULT 0,
    message TEXT NOT NULL DEFAULT '',
    files TEXT NOT NULL DEFAULT '[]',
    created REAL NOT NULL,
    updated REAL NOT NULL,
    runner TEXT NOT NULL
) STRICT;

CREATE INDEX jobs_by_creation ON jobs (created DESC);

-- Where a collection's documents came from, so that it can be indexed again.
CREATE TABLE sources (
    collection TEXT NOT NULL,
    path TEXT NOT NULL,
    added REAL NOT NULL,
    PRIMARY KEY (collection, path)
) STRICT;

-- What can be searched for. Trigrams find parts of words, and scripts that put no spaces between them.
-- Row 2n belongs to turn n, row 2n + 1 to conversation n.
CREATE VIRTUAL TABLE texts USING fts5 (conversation_id UNINDEXED, text, tokenize = 'trigram');

CREATE TRIGGER conversation_added AFTER INSERT ON conversations BEGIN
    INSERT INTO texts (rowid, conversation_id, text) VALUES (2 * new.n + 1, new.id, new.title);
END;
CREATE TRIGGER conversation_renamed AFTER UPDATE OF title ON conversations BEGIN
    UPDATE texts SET text = new.title WHERE rowid = 2 * new.n + 1;
END;
CREATE TRIGGER conversation_deleted AFTER DELETE ON conversations BEGIN
    DELETE FROM texts WHERE rowid = 2 * old.n + 1;
END;
CREATE TRIGGER turn_added AFTER INSERT ON turns WHEN new.conversation_id IS NOT NULL BEGIN
    INSERT INTO texts (rowid, conversation_id, text) VALUES (2 * new.n, new.conversation_id, new.question);
END;
CREATE TRIGGER turn_finished AFTER UPDATE OF status ON turns WHEN new.conversation_id IS NOT NULL AND NOT new.replaced BEGIN
    UPDATE texts SET text = new.question || char(10) || new.answer WHERE rowid = 2 * new.n;
END;
CREATE TRIGGER turn_replaced AFTER UPDATE OF replaced ON turns WHEN new.replaced BEGIN
    DELETE FROM texts WHERE rowid = 2 * new.n;
END;
CREATE TRIGGER turn_deleted AFTER DELETE ON turns BEGIN
    DELETE FROM texts WHERE rowid = 2 * old.n;
END;
