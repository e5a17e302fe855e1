"""Vectors: of texts, which chunks of which revisions they are of, and how far an index is.

Requests that are kept for their ledgers get another form, so those at hand are let go: they are
kept for a while only.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import UserDefinedType

from lorewell.errors import StorageUnavailableError

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# A migration stays as it was released, so it borrows nothing from the code, which moves on.
STRING = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TIME = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


class _PgVector(UserDefinedType[Any]):
    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Return the type of vectors of any length."""
        return "VECTOR"


VECTOR = sa.LargeBinary().with_variant(_PgVector(), "postgresql")


def upgrade() -> None:
    """Make the three tables; but for kept requests, what is there stays as it is."""
    connection = op.get_bind()
    is_postgres = connection.dialect.name == "postgresql"
    if is_postgres:
        _load_extension(connection)
    op.execute("DELETE FROM kept_requests")
    op.create_table(
        "vector_indexes",
        _column("tenant_id", STRING),
        _column("book_id", STRING),
        _column("revision", sa.BigInteger()),
        _column("embedding_version", STRING),
        _column("status", STRING),
        _column("build_id", STRING),
        _column("chunk_count", sa.BigInteger()),
        _column("done", sa.BigInteger()),
        sa.Column("error", STRING),
        sa.Column("lease_until", TIME),
        _column("updated_at", TIME),
        sa.Column("ready_version", STRING),
        sa.Column("ready_build_id", STRING),
        sa.PrimaryKeyConstraint("tenant_id", "book_id", "revision", name="pk_vector_indexes"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "book_id", "revision"],
            ["revisions.tenant_id", "revisions.book_id", "revisions.revision"],
            name="fk_vector_indexes_revisions",
        ),
    )
    op.create_table(
        "embeddings",
        _column("tenant_id", STRING),
        _column("embedding_version", STRING),
        _column("text_hash", STRING),
        _column("vector", VECTOR),
        _column("made_at", TIME),
        sa.PrimaryKeyConstraint(
            "tenant_id", "embedding_version", "text_hash", name="pk_embeddings"
        ),
    )
    if is_postgres:  # beside their row as long as they fit: a search reads thousands of them
        op.execute("ALTER TABLE embeddings ALTER COLUMN vector SET STORAGE MAIN")
    _make_chunks()


def _make_chunks() -> None:
    op.create_table(
        "chunks",
        _column("tenant_id", STRING),
        _column("book_id", STRING),
        _column("revision", sa.BigInteger()),
        _column("number", sa.BigInteger()),
        _column("place", sa.BigInteger()),
        _column("start", sa.BigInteger()),
        _column("embedding_version", STRING),
        _column("text_hash", STRING),
        sa.PrimaryKeyConstraint("tenant_id", "book_id", "revision", "number", name="pk_chunks"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "book_id", "revision"],
            ["vector_indexes.tenant_id", "vector_indexes.book_id", "vector_indexes.revision"],
            name="fk_chunks_vector_indexes",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "embedding_version", "text_hash"],
            ["embeddings.tenant_id", "embeddings.embedding_version", "embeddings.text_hash"],
            name="fk_chunks_embeddings",
        ),
    )
    op.create_index(
        "ix_chunks_tenant_id_embedding_version_text_hash",
        "chunks",
        ["tenant_id", "embedding_version", "text_hash"],
    )


def _load_extension(connection: sa.Connection) -> None:
    found = connection.execute(
        sa.text("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'")
    )
    if not found.scalar():
        raise StorageUnavailableError(
            "This PostgreSQL server lacks the extension pgvector; install it, 0.8 or newer."
        )
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")


def _column(name: str, kind: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)
