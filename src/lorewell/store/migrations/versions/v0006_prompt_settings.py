"""How a prompt uses its books, and indexes that can be searched before they are complete."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# A migration stays as it was released, so it borrows nothing from the code, which moves on.
STRING = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the columns; existing bindings get no settings, and global books, as before."""
    op.add_column(
        "binding_sets", sa.Column("settings", STRING, nullable=False, server_default="{}")
    )
    op.add_column("bindings", sa.Column("source", STRING, nullable=False, server_default="global"))
    op.add_column("vector_indexes", sa.Column("partial_version", STRING))
