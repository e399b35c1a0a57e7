-- What the provider said about a person when the session began: it is shown to it when the person leaves.
ALTER TABLE sessions ADD COLUMN id_token TEXT NOT NULL DEFAULT '';
