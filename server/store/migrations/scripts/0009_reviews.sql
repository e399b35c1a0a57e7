-- What people made of turns. Only ever added to: of a turn the newest row counts that no later one undoes.
CREATE TABLE reviews (
    n INTEGER PRIMARY KEY,
    turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    at REAL NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('corrected', 'approved', 'rejected', 'undone')),
    rewrite TEXT,
    passages TEXT,
    answer TEXT,
    undoes INTEGER REFERENCES reviews (n) ON DELETE CASCADE
) STRICT;

CREATE INDEX reviews_by_turn ON reviews (turn_id);
CREATE INDEX reviews_undoing ON reviews (undoes);
CREATE TRIGGER reviews_unchanged BEFORE UPDATE ON reviews BEGIN
    SELECT RAISE (ABORT, 'reviews are only added to');
END;
CREATE VIEW counting_reviews AS
SELECT * FROM reviews r WHERE r.n = (
    SELECT max(o.n) FROM reviews o WHERE o.turn_id = r.turn_id AND o.undoes IS NULL
    AND NOT EXISTS (SELECT 1 FROM reviews u WHERE u.undoes = o.n)
);
