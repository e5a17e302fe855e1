"""Events of the live channel, for a while, so that all processes and late readers get them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# A migration stays as it was released, so it borrows nothing from the code, which moves on.
STRING = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TIME = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")
# Both databases number the rows; SQLite does so where the column is an INTEGER, by no other name.
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table; what is there stays as it is."""
    op.create_table(
        "live_events",
        sa.Column("id", NUMBER, nullable=False),
        _column("tenant_id", STRING),
        _column("prompt_id", STRING),
        _column("made_at", TIME),
        _column("body", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("id", name="pk_live_events"),
    )
    op.create_index(
        "ix_live_events_tenant_id_prompt_id_id", "live_events", ["tenant_id", "prompt_id", "id"]
    )


def _column(name: str, kind: Any) -> sa.Column[Any]:  # noqa: ANN401  as SQLAlchemy has it
    return sa.Column(name, kind, nullable=False)
