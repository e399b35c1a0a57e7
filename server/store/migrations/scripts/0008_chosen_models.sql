-- The one of llm.choices by which a conversation is answered; empty: the server's own model.
ALTER TABLE conversations ADD COLUMN model TEXT NOT NULL DEFAULT '';
