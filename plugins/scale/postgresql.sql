-- What can be searched for, as SQLite's index of texts has it: of a turn that is answered now, only the question.
CREATE VIEW texts AS
SELECT 2 * n AS rowid, conversation_id,
    CASE WHEN status = 'pending' THEN question ELSE question || E'\n' || answer END AS text
FROM turns WHERE conversation_id IS NOT NULL AND NOT replaced
UNION ALL SELECT 2 * n + 1, id, title FROM conversations;

-- Without the right to make the extension, texts are searched one after the other.
DO $$ BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
    CREATE INDEX turns_by_text ON turns USING gin (
        (CASE WHEN status = 'pending' THEN question ELSE question || E'\n' || answer END) gin_trgm_ops
    );
    CREATE INDEX conversations_by_title ON conversations USING gin (title gin_trgm_ops);
EXCEPTION WHEN insufficient_privilege OR undefined_file OR feature_not_supported THEN
    RAISE WARNING USING MESSAGE = 'pg_trgm cannot be used here: ' || SQLERRM;
END $$;

-- What followed turns that are gone follows the one before them.
CREATE FUNCTION turns_left() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    WITH RECURSIVE up (id, parent) AS (
        SELECT id, parent FROM gone
        UNION ALL SELECT up.id, above.parent FROM up JOIN gone above ON above.id = up.parent
    )
    UPDATE turns SET parent = up.parent FROM up
    WHERE up.id = turns.parent AND (up.parent IS NULL OR up.parent NOT IN (SELECT id FROM gone));
    RETURN NULL;
END $$;

CREATE TRIGGER turns_left AFTER DELETE ON turns REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION turns_left();

CREATE OR REPLACE FUNCTION only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION USING MESSAGE = TG_ARGV[0] || ' only added to', ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER reviews_unchanged BEFORE UPDATE ON reviews FOR EACH ROW EXECUTE FUNCTION only_added_to('reviews are');

CREATE VIEW counting_reviews AS
SELECT * FROM reviews r WHERE r.n = (
    SELECT max(o.n) FROM reviews o WHERE o.turn_id = r.turn_id AND o.undoes IS NULL
    AND NOT EXISTS (SELECT 1 FROM reviews u WHERE u.undoes = o.n)
);
