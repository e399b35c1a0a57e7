-- The turn that one follows; turns that follow the same one are versions of each other. NULL: it begins a conversation.
ALTER TABLE turns ADD COLUMN parent TEXT;
-- Of the versions of a turn the one with the highest number is shown, of equals the newest. `replaced` follows from
-- these: whether a turn lies beside what is shown.
ALTER TABLE turns ADD COLUMN chosen INTEGER NOT NULL DEFAULT 0;

CREATE INDEX turns_by_parent ON turns (parent);

-- What was replaced before there were versions: a question asked again is a version of itself, any other a turn that
-- followed.
UPDATE turns SET parent = (
    SELECT p.id FROM turns p WHERE p.conversation_id = turns.conversation_id AND p.n < turns.n
    AND NOT (p.replaced AND (NOT turns.replaced OR p.question = turns.question)) ORDER BY p.n DESC LIMIT 1
) WHERE conversation_id IS NOT NULL;

CREATE TRIGGER turn_shown AFTER UPDATE OF replaced ON turns WHEN NOT new.replaced AND old.replaced BEGIN
    INSERT OR REPLACE INTO texts (rowid, conversation_id, text)
    VALUES (2 * new.n, new.conversation_id, new.question || char(10) || new.answer);
END;
-- What followed a turn that is gone follows the one before it.
CREATE TRIGGER turn_left AFTER DELETE ON turns BEGIN
    UPDATE turns SET parent = old.parent WHERE parent = old.id;
END;
