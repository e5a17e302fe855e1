"""The lines of conversations, by hashes under a secret of their tenant."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# A migration stays as it was released, so it borrows nothing from the code, which moves on.
STRING = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables; what is there stays as it is."""
    op.create_table(
        "tenant_secrets",
        _column("tenant_id", STRING),
        _column("secret", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("tenant_id", name="pk_tenant_secrets"),
    )
    op.create_table(
        "conversation_lines",
        _column("tenant_id", STRING),
        _column("conversation_id", STRING),
        _column("body", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("tenant_id", "conversation_id", name="pk_conversation_lines"),
        _belongs("conversation_lines"),
    )
    op.create_table(
        "conversation_pairs",
        _column("tenant_id", STRING),
        _column("pair", sa.LargeBinary()),
        _column("conversation_id", STRING),
        sa.PrimaryKeyConstraint(
            "tenant_id", "pair", "conversation_id", name="pk_conversation_pairs"
        ),
        _belongs("conversation_pairs"),
    )
    op.create_index(
        "ix_conversation_pairs_tenant_id_conversation_id",
        "conversation_pairs",
        ["tenant_id", "conversation_id"],
    )


def _belongs(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["tenant_id", "conversation_id"],
        ["conversations.tenant_id", "conversations.conversation_id"],
        name=f"fk_{table}_conversations",
        ondelete="CASCADE",
    )


def _column(name: str, kind: Any) -> sa.Column[Any]:  # noqa: ANN401  as SQLAlchemy has it
    return sa.Column(name, kind, nullable=False)
