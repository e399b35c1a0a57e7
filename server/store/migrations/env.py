"""Environment of Alembic: run the revisions of `versions` on the given connection."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
