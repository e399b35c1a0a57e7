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

CREATE TRIGGER turn_shown AFTER UPDATE OF replaced ON turns WHEN NOT new.replaced AND old.replaced BEGIN
    INSERT OR REPLACE INTO texts (rowid, conversation_id, text)
    VALUES (2 * new.n, new.conversation_id, new.question || char(10) || new.answer);
END;

CREATE TRIGGER turn_deleted AFTER DELETE ON turns BEGIN
    DELETE FROM texts WHERE rowid = 2 * old.n;
END;

-- What followed a turn that is gone follows the one before it.
CREATE TRIGGER turn_left AFTER DELETE ON turns BEGIN
    UPDATE turns SET parent = old.parent WHERE parent = old.id;
END;

CREATE TRIGGER reviews_unchanged BEFORE UPDATE ON reviews BEGIN
    SELECT RAISE (ABORT, 'reviews are only added to');
END;

CREATE VIEW counting_reviews AS
SELECT * FROM reviews r WHERE r.n = (
    SELECT max(o.n) FROM reviews o WHERE o.turn_id = r.turn_id AND o.undoes IS NULL
    AND NOT EXISTS (SELECT 1 FROM reviews u WHERE u.undoes = o.n)
);
