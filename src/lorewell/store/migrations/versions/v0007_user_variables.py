"""The global variables of users, which macros of SillyTavern's rules set."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# A migration stays as it was released, so it borrows nothing from the code, which moves on.
STRING = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TIME = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Make the table; states of earlier versions have no variables."""
    op.create_table(
        "user_variables",
        sa.Column("tenant_id", STRING, nullable=False),
        sa.Column("owner", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("kept_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "owner", name="pk_user_variables"),
    )
