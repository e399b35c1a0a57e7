INSERT INTO audit_anchor (id, n, chain) VALUES (0, 0, '');

CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit BEGIN
    SELECT RAISE (ABORT, 'the audit log is only added to');
END;

CREATE TRIGGER audit_kept BEFORE DELETE ON audit WHEN old.n > (SELECT n FROM audit_anchor) BEGIN
    SELECT RAISE (ABORT, 'the audit log is only added to');
END;

CREATE TRIGGER audit_anchor_kept BEFORE DELETE ON audit_anchor BEGIN
    SELECT RAISE (ABORT, 'the audit log is only added to');
END;

CREATE TRIGGER audit_anchor_forward BEFORE UPDATE ON audit_anchor WHEN new.n <= old.n BEGIN
    SELECT RAISE (ABORT, 'the audit log is only added to');
END;
