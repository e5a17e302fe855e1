"""The schema as both databases have it.

`tenant_id` leads every key of what belongs to a tenant, so that the rows can be distributed by
tenant. API keys belong to no tenant.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# By code point everywhere, as SQLite does by itself: a locale would order and page differently.
String = Text().with_variant(Text(collation="C"), "postgresql")


class UtcTime(TypeDecorator[datetime]):
    """Aware times in UTC with microseconds: a timestamp, or else a text that sorts."""

    impl = Text().with_variant(DateTime(timezone=True), "postgresql")
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        """Return what the database stores.

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
        if value is not None and value.tzinfo is None:  # asyncpg's first and last time are naive
            return value.replace(tzinfo=UTC)
        return value


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

# `book_id` is null only inside the transaction that took the file.
files = Table(
    "files",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("sha256", String, nullable=False),
    Column("book_id", String),
    PrimaryKeyConstraint("tenant_id", "sha256"),
    ForeignKeyConstraint(["tenant_id", "book_id"], ["books.tenant_id", "books.book_id"]),
)

# `status` and `response` are null only inside the transaction that took the key.
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
    PrimaryKeyConstraint("tenant_id", "prompt_id"),
)

bindings = Table(
    "bindings",
    metadata,
    Column("tenant_id", String, nullable=False),
    Column("prompt_id", String, nullable=False),
    Column("slot", BigInteger, nullable=False),  # place in stored order, from 0
    Column("book_id", String, nullable=False),
    Column("revision", BigInteger),
    Column("position", BigInteger, nullable=False),
    Column("enabled", Boolean, nullable=False),
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
