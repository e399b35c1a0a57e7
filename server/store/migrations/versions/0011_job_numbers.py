"""Jobs have numbers in the order in which they were added: clocks go back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Those that are there keep the order that they had."""
    sqlite = op.get_bind().dialect.name == "sqlite"
    op.add_column(
        "jobs", sa.Column("n", sa.INTEGER() if sqlite else sa.BIGINT(), nullable=False, server_default=sa.text("0"))
    )
    if sqlite:
        op.execute("UPDATE jobs SET n = rowid")
    else:
        op.execute(
            "UPDATE jobs SET n = ordered.n FROM (SELECT id, row_number() OVER (ORDER BY created, id) AS n FROM jobs) "
            "AS ordered WHERE ordered.id = jobs.id"
        )
