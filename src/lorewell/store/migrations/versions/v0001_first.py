"""The first schema."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# A migration stays as it was released, so it borrows nothing from the code, which moves on.
STRING = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TIME = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")
INTEGER = sa.BigInteger()
BYTES = sa.LargeBinary()


def upgrade() -> None:
    """Make all tables."""
    _make_books()
    _make_bindings()
    _make_the_rest()


def _column(name: str, kind: sa.types.TypeEngine[Any], *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=null)


def _make_books() -> None:
    op.create_table(
        "books",
        _column("tenant_id", STRING),
        _column("book_id", STRING),
        _column("name", STRING),
        _column("name_folded", STRING),
        _column("latest_revision", INTEGER),
        _column("created_at", TIME),
        _column("updated_at", TIME),
        _column("deleted_at", TIME, null=True),
        sa.PrimaryKeyConstraint("tenant_id", "book_id", name="pk_books"),
    )
    newest_first = sa.text("updated_at DESC")
    op.create_index(
        "ix_books_tenant_id_updated_at_book_id", "books", ["tenant_id", newest_first, "book_id"]
    )
    op.create_index(
        "ix_books_updated_at_book_id_tenant_id", "books", [newest_first, "book_id", "tenant_id"]
    )
    op.create_table(
        "contents",
        _column("tenant_id", STRING),
        _column("content_hash", STRING),
        _column("body", BYTES),
        sa.PrimaryKeyConstraint("tenant_id", "content_hash", name="pk_contents"),
    )
    op.create_table(
        "revisions",
        _column("tenant_id", STRING),
        _column("book_id", STRING),
        _column("revision", INTEGER),
        _column("name", STRING),
        _column("entry_count", INTEGER),
        _column("content_hash", STRING),
        _column("origin", STRING),
        _column("import_report", BYTES),
        _column("created_at", TIME),
        sa.PrimaryKeyConstraint("tenant_id", "book_id", "revision", name="pk_revisions"),
        _key_to_books("revisions"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "content_hash"],
            ["contents.tenant_id", "contents.content_hash"],
            name="fk_revisions_contents",
        ),
    )
    op.create_table(
        "files",
        _column("tenant_id", STRING),
        _column("sha256", STRING),
        sa.Column("book_id", STRING),
        sa.PrimaryKeyConstraint("tenant_id", "sha256", name="pk_files"),
        _key_to_books("files"),
    )


def _make_bindings() -> None:
    op.create_table(
        "binding_sets",
        _column("tenant_id", STRING),
        _column("prompt_id", STRING),
        _column("policy", STRING),
        sa.PrimaryKeyConstraint("tenant_id", "prompt_id", name="pk_binding_sets"),
    )
    op.create_table(
        "bindings",
        _column("tenant_id", STRING),
        _column("prompt_id", STRING),
        _column("slot", INTEGER),
        _column("book_id", STRING),
        _column("revision", INTEGER, null=True),
        _column("position", INTEGER),
        _column("enabled", sa.Boolean()),
        sa.PrimaryKeyConstraint("tenant_id", "prompt_id", "slot", name="pk_bindings"),
        sa.UniqueConstraint(
            "tenant_id", "prompt_id", "book_id", name="uq_bindings_tenant_id_prompt_id_book_id"
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "prompt_id"],
            ["binding_sets.tenant_id", "binding_sets.prompt_id"],
            name="fk_bindings_binding_sets",
        ),
        _key_to_books("bindings"),
    )
    op.create_index("ix_bindings_tenant_id_book_id", "bindings", ["tenant_id", "book_id"])


def _make_the_rest() -> None:
    op.create_table(
        "idempotency_keys",
        _column("tenant_id", STRING),
        _column("key", STRING),
        _column("request_hash", STRING),
        _column("status", INTEGER, null=True),
        _column("response", BYTES, null=True),
        sa.PrimaryKeyConstraint("tenant_id", "key", name="pk_idempotency_keys"),
    )
    op.create_table(
        "api_keys",
        _column("key_id", STRING),
        _column("name", STRING),
        _column("tenants", STRING),
        _column("scopes", STRING),
        _column("salt", BYTES),
        _column("secret_hash", BYTES),
        _column("created_at", TIME),
        _column("revoked_at", TIME, null=True),
        sa.PrimaryKeyConstraint("key_id", name="pk_api_keys"),
    )
    op.create_table(
        "kept_requests",
        _column("tenant_id", STRING),
        _column("selection_id", STRING),
        _column("body", BYTES),
        _column("expires_at", TIME),
        sa.PrimaryKeyConstraint("tenant_id", "selection_id", name="pk_kept_requests"),
    )
    op.create_index("ix_kept_requests_expires_at", "kept_requests", ["expires_at"])


def _key_to_books(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["tenant_id", "book_id"], ["books.tenant_id", "books.book_id"], name=f"fk_{table}_books"
    )
