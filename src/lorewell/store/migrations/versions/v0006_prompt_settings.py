"""How a prompt uses its books: settings of a set of bindings, and what each book counts as."""

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
