"""Conversations, and the timed state after each of their turns."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# A migration stays as it was released, so it borrows nothing from the code, which moves on.
STRING = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TIME = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Make both tables; what is there stays as it is."""
    op.create_table(
        "conversations",
        _column("tenant_id", STRING),
        _column("conversation_id", STRING),
        _column("created_at", TIME),
        _column("updated_at", TIME),
        sa.PrimaryKeyConstraint("tenant_id", "conversation_id", name="pk_conversations"),
    )
    op.create_index(
        "ix_conversations_tenant_id_updated_at_conversation_id",
        "conversations",
        ["tenant_id", sa.text("updated_at DESC"), "conversation_id"],
    )
    op.create_table(
        "conversation_states",
        _column("tenant_id", STRING),
        _column("conversation_id", STRING),
        _column("messages_hash", STRING),
        _column("message_count", sa.BigInteger()),
        _column("state", sa.LargeBinary()),
        _column("kept_at", TIME),
        sa.PrimaryKeyConstraint(
            "tenant_id", "conversation_id", "messages_hash", name="pk_conversation_states"
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "conversation_id"],
            ["conversations.tenant_id", "conversations.conversation_id"],
            name="fk_conversation_states_conversations",
            ondelete="CASCADE",
        ),
    )


def _column(name: str, kind: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)
