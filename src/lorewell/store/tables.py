"""The schema of both databases.

Keys of tenant data begin with `tenant_id`, so that rows can be distributed by tenant. API keys do
not belong to a tenant.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# Ordered by code point, as in SQLite: a locale would order and page differently.
String = Text().with_variant(Text(collation="C"), "postgresql")


class UtcTime(TypeDecorator[datetime]):
    """Aware UTC times with microseconds: a timestamp in PostgreSQL, sortable text in SQLite."""

    impl = Text().with_variant(DateTime(timezone=True), "postgresql")
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        """Return the stored form.

        Raises:
            ValueError: the time is naive.
        """
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("times are stored with their zone")
        if dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(
        self, value: datetime | str | None, dialect: Dialect
    ) -> datetime | None:
        """Return the time that was stored."""
        del dialect
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        if (
            value is not None and value.tzinfo is None
        ):  # asyncpg returns its minimum and maximum naive
            return value.replace(tzinfo=UTC)
        return value


class Vector(TypeDecorator["NDArray[float32]"]):
    """Rows of float32: pgvector's type in PostgreSQL, little-endian bytes in SQLite."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type of the dialect."""
        if dialect.name != "postgresql":
            return dialect.type_descriptor(LargeBinary())
        from pgvector.sqlalchemy import VECTOR  # noqa: PLC0415  comes with an extra

        return dialect.type_descriptor(VECTOR())

    def process_bind_param(
        self, value: NDArray[float32] | None, dialect: Dialect
    ) -> NDArray[float32] | bytes | None:
        """Return the stored form."""
        if value is None or dialect.name == "postgresql":
            return value
        return value.astype("<f4").tobytes()


books = Table(
    "books",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("book_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("name_folded", String, nullable=False),
    Column("latest_revision", BigInteger, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("deleted_at", UtcTime),
    PrimaryKeyConstraint("tenant_id", "book_id"),
)
Index(None, books.c.tenant_id, books.c.updated_at.desc(), books.c.book_id)
Index(None, books.c.updated_at.desc(), books.c.book_id, books.c.tenant_id)

contents = Table(
    "contents",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("content_hash", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant_id", "content_hash"),
)

revisions = Table(
    "revisions",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("book_id", String, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("name", String, nullable=False),
    Column("entry_count", BigInteger, nullable=False),
    Column("content_hash", String, nullable=False),
    Column("origin", String, nullable=False),
    Column("import_report", LargeBinary, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("tenant_id", "book_id", "revision"),
    ForeignKeyConstraint(["tenant_id", "book_id"], ["books.tenant_id", "books.book_id"]),
    ForeignKeyConstraint(
        ["tenant_id", "content_hash"], ["contents.tenant_id", "contents.content_hash"]
    ),
)

# `book_id` is null only within the transaction that claimed the file.
files = Table(
    "files",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("sha256", String, nullable=False),
    Column("book_id", String),
    PrimaryKeyConstraint("tenant_id", "sha256"),
    ForeignKeyConstraint(["tenant_id", "book_id"], ["books.tenant_id", "books.book_id"]),
)

# `status` and `response` are null only within the transaction that claimed the key.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("key", String, nullable=False),
    Column("request_hash", String, nullable=False),
    Column("status", BigInteger),
    Column("response", LargeBinary),
    PrimaryKeyConstraint("tenant_id", "key"),
)

binding_sets = Table(
    "binding_sets",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("prompt_id", String, nullable=False),
    Column("policy", String, nullable=False),
    Column("settings", String, nullable=False, server_default="{}"),  # a JSON object
    PrimaryKeyConstraint("tenant_id", "prompt_id"),
)

bindings = Table(
    "bindings",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("prompt_id", String, nullable=False),
    Column("slot", BigInteger, nullable=False),  # index in stored order, from 0
    Column("book_id", String, nullable=False),
    Column("revision", BigInteger),
    Column("position", BigInteger, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("source", String, nullable=False, server_default="global"),
    PrimaryKeyConstraint("tenant_id", "prompt_id", "slot"),
    UniqueConstraint("tenant_id", "prompt_id", "book_id"),
    ForeignKeyConstraint(
        ["tenant_id", "prompt_id"], ["binding_sets.tenant_id", "binding_sets.prompt_id"]
    ),
    ForeignKeyConstraint(["tenant_id", "book_id"], ["books.tenant_id", "books.book_id"]),
)
Index(None, bindings.c.tenant_id, bindings.c.book_id)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("tenants", String, nullable=False),  # a JSON list, as `scopes`
    Column("scopes", String, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("revoked_at", UtcTime),
    PrimaryKeyConstraint("key_id"),
)

kept_requests = Table(
    "kept_requests",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("selection_id", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("tenant_id", "selection_id"),
)
Index(None, kept_requests.c.expires_at)

conversations = Table(
    "conversations",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("conversation_id", String, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("tenant_id", "conversation_id"),
)
Index(
    None,
    conversations.c.tenant_id,
    conversations.c.updated_at.desc(),
    conversations.c.conversation_id,
)

conversation_states = Table(
    "conversation_states",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("conversation_id", String, nullable=False),
    Column("messages_hash", String, nullable=False),
    Column("message_count", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
    Column("kept_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("tenant_id", "conversation_id", "messages_hash"),
    ForeignKeyConstraint(
        ["tenant_id", "conversation_id"],
        ["conversations.tenant_id", "conversations.conversation_id"],
        ondelete="CASCADE",
    ),
)

# The known lines of a conversation in one value (host/known_lines.py): a turn reads them whole.
conversation_lines = Table(
    "conversation_lines",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("conversation_id", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant_id", "conversation_id"),
    ForeignKeyConstraint(
        ["tenant_id", "conversation_id"],
        ["conversations.tenant_id", "conversations.conversation_id"],
        ondelete="CASCADE",
    ),
)

# Hashes of neighbouring lines, to find conversations that have no id of their client.
conversation_pairs = Table(
    "conversation_pairs",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("pair", LargeBinary, nullable=False),
    Column("conversation_id", String, nullable=False),
    PrimaryKeyConstraint("tenant_id", "pair", "conversation_id"),
    ForeignKeyConstraint(
        ["tenant_id", "conversation_id"],
        ["conversations.tenant_id", "conversations.conversation_id"],
        ondelete="CASCADE",
    ),
)
Index(None, conversation_pairs.c.tenant_id, conversation_pairs.c.conversation_id)

# Global variables of macros; the owner is a hash of prompt, API key and user.
user_variables = Table(
    "user_variables",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("owner", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("kept_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("tenant_id", "owner"),
)
Index(
    None,
    user_variables.c.tenant_id,
    user_variables.c.kept_at.desc(),
    user_variables.c.owner,
)

tenant_secrets = Table(
    "tenant_secrets",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("secret", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant_id"),
)

# `chunk_count` and `done` are the progress of a build; `lease_until` is set while it runs. The
# stored chunks belong to `ready_build_id`, or before the first ready build to `partial_version`.
vector_indexes = Table(
    "vector_indexes",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("book_id", String, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("embedding_version", String, nullable=False),
    Column("status", String, nullable=False),
    Column("build_id", String, nullable=False),
    Column("chunk_count", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("error", String),
    Column("lease_until", UtcTime),
    Column("updated_at", UtcTime, nullable=False),
    Column("ready_version", String),
    Column("ready_build_id", String),
    Column("partial_version", String),
    Column("quiet", String),
    PrimaryKeyConstraint("tenant_id", "book_id", "revision"),
    ForeignKeyConstraint(
        ["tenant_id", "book_id", "revision"],
        ["revisions.tenant_id", "revisions.book_id", "revisions.revision"],
    ),
)

# Vectors by the hash of their text: revisions that share a text share its vector.
embeddings = Table(
    "embeddings",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("embedding_version", String, nullable=False),
    Column("text_hash", String, nullable=False),
    Column("vector", Vector, nullable=False),
    Column("made_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("tenant_id", "embedding_version", "text_hash"),
)

# `place` is the index of the entry in its revision, `start` an offset in its content.
chunks = Table(
    "chunks",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("book_id", String, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("embedding_version", String, nullable=False),
    Column("text_hash", String, nullable=False),
    PrimaryKeyConstraint("tenant_id", "book_id", "revision", "number"),
    ForeignKeyConstraint(
        ["tenant_id", "book_id", "revision"],
        ["vector_indexes.tenant_id", "vector_indexes.book_id", "vector_indexes.revision"],
    ),
    ForeignKeyConstraint(
        ["tenant_id", "embedding_version", "text_hash"],
        ["embeddings.tenant_id", "embeddings.embedding_version", "embeddings.text_hash"],
    ),
)
Index(None, chunks.c.tenant_id, chunks.c.embedding_version, chunks.c.text_hash)

# Ids are unique over all tenants, in the order in which rows become visible (store/live.py):
# readers follow the whole table by id. The newest row is never deleted, so no id is assigned twice,
# although SQLite assigns the greatest id plus 1.
live_events = Table(
    "live_events",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), nullable=False),
    Column("tenant_id", String, nullable=False),
    Column("prompt_id", String, nullable=False),
    Column("made_at", UtcTime, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("id"),
)
Index(None, live_events.c.tenant_id, live_events.c.prompt_id, live_events.c.id)
