ALTER TABLE audit RENAME COLUMN object TO about;

-- Up to where the audit log was cut off: it can be deleted to there and no further, and its chain begins there.
CREATE TABLE audit_anchor (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    n INTEGER NOT NULL,
    chain TEXT NOT NULL
) STRICT;
INSERT INTO audit_anchor (id, n, chain) VALUES (0, 0, '');

CREATE TRIGGER audit_kept BEFORE DELETE ON audit WHEN old.n > (SELECT n FROM audit_anchor) BEGIN
    SELECT RAISE (ABORT, 'the audit log is only added to');
END;
CREATE TRIGGER audit_anchor_kept BEFORE DELETE ON audit_anchor BEGIN
    SELECT RAISE (ABORT, 'the audit log is only added to');
END;
CREATE TRIGGER audit_anchor_forward BEFORE UPDATE ON audit_anchor WHEN new.n <= old.n BEGIN
    SELECT RAISE (ABORT, 'the audit log is only added to');
END;
