"""What texts that need no lore reach in an index, for `recall_floor: "auto"`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# A migration stays as it was released, so it borrows nothing from the code, which moves on.
STRING = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; existing indexes are measured when they are built again."""
    op.add_column("vector_indexes", sa.Column("quiet", STRING))
