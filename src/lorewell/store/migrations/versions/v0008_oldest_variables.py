"""An index that finds the users whose global variables changed longest ago."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index."""
    op.create_index(
        "ix_user_variables_tenant_id_kept_at_owner",
        "user_variables",
        ["tenant_id", sa.text("kept_at DESC"), "owner"],
    )
