-- A role, groups (a JSON list; "*" is every group) and an end for each key. Those made before could do everything.
ALTER TABLE keys ADD COLUMN role TEXT NOT NULL DEFAULT 'operator' CHECK (role IN ('reader', 'agent', 'operator'));
ALTER TABLE keys ADD COLUMN groups TEXT NOT NULL DEFAULT '["*"]';
ALTER TABLE keys ADD COLUMN expires REAL;

-- Which groups may use a collection; one without any row belongs to the group "default".
CREATE TABLE grants (
    collection TEXT NOT NULL,
    group_name TEXT NOT NULL,
    created REAL NOT NULL,
    PRIMARY KEY (collection, group_name)
) STRICT;

-- Whose a row is: a principal's id ('' for rows of before), and a group.
ALTER TABLE conversations ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN group_name TEXT NOT NULL DEFAULT 'default';
ALTER TABLE turns ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN group_name TEXT NOT NULL DEFAULT 'default';
ALTER TABLE feedback ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN group_name TEXT NOT NULL DEFAULT 'default';

CREATE INDEX conversations_by_owner ON conversations (owner, updated DESC);
CREATE INDEX turns_by_owner ON turns (owner);

-- Files that people handed in: `name` is the file's below the collection's uploads.
CREATE TABLE uploads (
    collection TEXT NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    group_name TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    created REAL NOT NULL,
    PRIMARY KEY (collection, name)
) STRICT;

-- A session is a principal's (JSON); one that was begun with a key ends with it, and has the key's role and groups.
DROP TABLE sessions;
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    principal TEXT NOT NULL,
    key_id TEXT REFERENCES keys (id) ON DELETE CASCADE,
    expires REAL NOT NULL
) STRICT;

-- Only ever added to.
CREATE TABLE audit (
    n INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    principal TEXT NOT NULL,
    action TEXT NOT NULL,
    object TEXT NOT NULL DEFAULT '',
    collection TEXT NOT NULL DEFAULT '',
    group_name TEXT NOT NULL DEFAULT '',
    origin TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT 'done',
    detail TEXT NOT NULL DEFAULT '{}',
    chain TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX audit_by_time ON audit (at);
CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit BEGIN
    SELECT RAISE (ABORT, 'the audit log is only added to');
END;
