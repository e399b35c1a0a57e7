INSERT INTO audit_anchor (id, n, chain) VALUES (0, 0, '');

CREATE OR REPLACE FUNCTION only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION USING MESSAGE = TG_ARGV[0] || ' only added to', ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE FUNCTION audit_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF old.n > (SELECT n FROM audit_anchor) THEN
        RAISE EXCEPTION 'the audit log is only added to' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN old;
END $$;

CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit
    FOR EACH ROW EXECUTE FUNCTION only_added_to('the audit log is');

CREATE TRIGGER audit_kept BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_kept();

CREATE TRIGGER audit_whole BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION only_added_to('the audit log is');

CREATE TRIGGER audit_anchor_kept BEFORE DELETE ON audit_anchor
    FOR EACH ROW EXECUTE FUNCTION only_added_to('the audit log is');

CREATE TRIGGER audit_anchor_forward BEFORE UPDATE ON audit_anchor FOR EACH ROW WHEN (new.n <= old.n)
    EXECUTE FUNCTION only_added_to('the audit log is');
