"""The schema: migrations make what the code describes, once, and both are told apart by version."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pgvector.sqlalchemy  # noqa: F401  tells the tool that compares of its type
import pytest
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from contract.harness import Harness, opened
from contract.rows import START, add_book, binding, head, uuid
from lorewell.app.rows import StateMark, StoredBindings
from lorewell.errors import StorageUnavailableError
from lorewell.host.carried import CarriedState
from lorewell.store import open_store
from lorewell.store.postgres import PostgresStore
from lorewell.store.sqlite import SqliteStore
from lorewell.store.tables import metadata
from lorewell.store.transaction import Unit


@pytest.fixture
def db(empty_url: str) -> Iterator[Harness]:
    with opened(open_store(empty_url)) as harness:
        yield harness


def run_sql(db: Harness, unit: Unit[Any]) -> Any:
    """Run a unit of work on the database itself."""
    store = db.store
    if isinstance(store, PostgresStore):
        return db.run(store._run(store._engine, unit, commit=True))
    assert isinstance(store, SqliteStore)
    return store._write(unit, time.monotonic() + 60)


def test_migrations_make_what_the_code_describes(db: Harness) -> None:
    def differences(connection: Connection) -> list[Any]:
        options = {"compare_type": True, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    assert run_sql(db, differences) == []


def test_migrations_name_what_the_code_names(db: Harness) -> None:
    """Names of keys and constraints are not compared by the tool."""

    def names(connection: Connection) -> set[str | None]:
        look = inspect(connection)
        found = {
            item["name"]
            for table in metadata.tables
            for items in (
                look.get_foreign_keys(table),
                look.get_unique_constraints(table),
                look.get_indexes(table),
                [look.get_pk_constraint(table)],
            )
            for item in items
        }
        return {None if name is None else str(name) for name in found}

    described = {
        str(item.name)
        for table in metadata.tables.values()
        for item in (*table.constraints, *table.indexes)
    }
    assert run_sql(db, names) == described


def test_text_has_the_order_of_code_points(db: Harness) -> None:
    if not isinstance(db.store, PostgresStore):
        pytest.skip("SQLite compares bytes unless told otherwise")
    unordered = text(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = current_schema() AND data_type = 'text' AND collation_name <> 'C'"
        " OR table_schema = current_schema() AND data_type = 'text' AND collation_name IS NULL"
    )
    assert run_sql(db, lambda connection: connection.execute(unordered).all()) == []


def test_every_key_of_a_tenants_rows_begins_with_the_tenant() -> None:
    for table in metadata.tables.values():
        if "tenant_id" not in table.c:
            assert table.name == "api_keys"
            continue
        if table.name == "live_events":  # all processes follow it as a whole
            continue
        keys = [table.primary_key, *table.foreign_key_constraints]
        keys += [item for item in table.constraints if type(item).__name__ == "UniqueConstraint"]
        for key in keys:
            assert next(iter(key.columns)).name == "tenant_id", key


def test_unmigrated_database_is_not_ready(empty_url: str) -> None:
    async def go() -> None:
        store = open_store(empty_url)
        try:
            assert await store.check() == "migrations"
            with pytest.raises(StorageUnavailableError):
                await store.read(lambda tx: tx.list_tenants())
            await store.migrate()
            assert await store.check() is None
            await store.migrate()
            assert await store.read(lambda tx: tx.list_tenants()) == []
        finally:
            await store.close()

    asyncio.run(go())


@pytest.mark.parametrize("version", ["0000", "9999"])
def test_version_that_is_not_known_is_told(db: Harness, version: str) -> None:
    change = text("UPDATE alembic_version SET version_num = :version")
    run_sql(db, lambda connection: connection.execute(change, {"version": version}))
    assert db.run(db.store.check()) == "newer_schema"
    with pytest.raises(StorageUnavailableError, match="newer version") as caught:
        db.run(db.store.migrate())
    assert caught.value.details == {"part": "newer_schema", "found": [version]}
    run_sql(db, lambda connection: connection.execute(change, {"version": "0009"}))
    assert db.run(db.store.check()) is None


def test_older_version_is_told(db: Harness) -> None:
    run_sql(db, lambda connection: connection.execute(text("DELETE FROM alembic_version")))
    assert db.run(db.store.check()) == "migrations"


def test_migrating_again_keeps_what_is_there(db: Harness) -> None:
    db.write(add_book(1))
    db.run(db.store.migrate())
    assert db.read(lambda tx: tx.find_head("a", uuid(1))) == head(1)


def test_failed_migration_leaves_nothing(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(op, "create_index", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError), opened(open_store(empty_url)):
            pass
    with opened(open_store(empty_url)) as db:
        assert db.run(db.store.check()) is None


def test_stores_of_one_process_migrate_side_by_side(
    empty_url: str, make_database: Callable[[], str]
) -> None:
    urls = [empty_url, empty_url, make_database()]
    ready: list[str | None] = []

    def start(url: str) -> None:
        with opened(open_store(url)) as db:
            ready.append(db.run(db.store.check()))

    threads = [threading.Thread(target=start, args=[url]) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ready == [None] * 3


def test_the_first_release_is_brought_up_with_its_data(empty_url: str) -> None:
    """Only what the first schema has is there before, and all of it is there afterwards."""
    with opened(open_store(empty_url)) as db:
        db.write(add_book(1, content=b'{"name":"\xe9\x9b\xbe"}'))

        def go_back(connection: Connection) -> None:
            later = ("live_events", "chunks", "embeddings", "vector_indexes", "tenant_secrets")
            kept = ("conversation_pairs", "conversation_lines", "conversation_states")
            for table in (*later, *kept, "conversations", "user_variables"):
                connection.execute(text(f"DROP TABLE {table}"))
            _drop_settings(connection)
            connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))

        run_sql(db, go_back)
        assert db.run(db.store.check()) == "migrations"
    with opened(open_store(empty_url)) as db:  # migrates
        assert db.run(db.store.check()) is None
        assert db.read(lambda tx: tx.find_head("a", uuid(1))) == head(1)
        kept = StateMark(messages_hash="h", message_count=1, kept_at=START)
        db.write(lambda tx: tx.keep_state("a", "c", kept, b"{}", most=1))
        assert db.read(lambda tx: tx.list_states("a", "c")) == [(kept, b"{}")]


def _drop_settings(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE binding_sets DROP COLUMN settings"))
    connection.execute(text("ALTER TABLE bindings DROP COLUMN source"))


def _drop_partial(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE vector_indexes DROP COLUMN partial_version"))


def _drop_quiet(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE vector_indexes DROP COLUMN quiet"))


def _drop_variables(connection: Connection) -> None:
    connection.execute(text("DROP TABLE user_variables"))


def _drop_lines(connection: Connection) -> None:
    for table in ("conversation_pairs", "conversation_lines", "tenant_secrets"):
        connection.execute(text(f"DROP TABLE {table}"))


def test_bindings_of_an_older_release_get_no_settings_and_global_books(empty_url: str) -> None:
    stored = StoredBindings(
        policy="sillytavern",
        bindings=(binding(2, revision=1, position=3), binding(1, enabled=False)),
    )
    with opened(open_store(empty_url)) as db:
        db.write(add_book(1))
        db.write(add_book(2))
        db.write(lambda tx: tx.put_bindings("a", "雾 p", stored))

        def go_back(connection: Connection) -> None:
            _drop_quiet(connection)
            _drop_variables(connection)
            _drop_settings(connection)
            _drop_partial(connection)
            connection.execute(text("UPDATE alembic_version SET version_num = '0005'"))

        run_sql(db, go_back)
        assert db.run(db.store.check()) == "migrations"
    with opened(open_store(empty_url)) as db:  # migrates
        found = db.read(lambda tx: tx.find_bindings("a", "雾 p"))
        assert found == stored
        assert found.settings.model_dump() == {}
        assert [each.source for each in found.bindings] == ["global", "global"]


def test_states_from_before_lines_were_kept_stay(empty_url: str) -> None:
    kept = StateMark(messages_hash=64 * "a", message_count=3, kept_at=START)
    with opened(open_store(empty_url)) as db:
        db.write(lambda tx: tx.keep_state("a", "c", kept, b"{}", most=9))

        def go_back(connection: Connection) -> None:
            _drop_quiet(connection)
            _drop_variables(connection)
            _drop_settings(connection)
            _drop_partial(connection)
            _drop_lines(connection)
            connection.execute(text("UPDATE alembic_version SET version_num = '0004'"))

        run_sql(db, go_back)
        assert db.run(db.store.check()) == "migrations"
    with opened(open_store(empty_url)) as db:  # migrates
        assert db.read(lambda tx: tx.list_states("a", "c")) == [(kept, b"{}")]
        assert db.read(lambda tx: tx.find_lines("a", "c")) is None
        db.write(lambda tx: tx.put_lines("a", "c", b"lines"))
        assert db.read(lambda tx: tx.find_lines("a", "c")) == b"lines"


def test_states_from_before_variables_were_kept_stay(empty_url: str) -> None:
    kept = StateMark(messages_hash=32 * "a", message_count=3, kept_at=START)
    state = b'{"sticky": {"w.0": {"end": 5}}, "cooldown": {}}'
    with opened(open_store(empty_url)) as db:
        db.write(lambda tx: tx.keep_state("a", "c", kept, state, most=9))
        db.write(lambda tx: tx.put_lines("a", "c", b"lines"))

        def go_back(connection: Connection) -> None:
            _drop_quiet(connection)
            _drop_variables(connection)
            connection.execute(text("UPDATE alembic_version SET version_num = '0006'"))

        run_sql(db, go_back)
        assert db.run(db.store.check()) == "migrations"
    with opened(open_store(empty_url)) as db:  # migrates
        ((mark, body),) = db.read(lambda tx: tx.list_states("a", "c"))
        assert (mark, CarriedState.parse(body)) == (kept, CarriedState(json.loads(state)))
        assert db.read(lambda tx: tx.find_lines("a", "c")) == b"lines"
        assert db.read(lambda tx: tx.find_variables("a", b"ann")) is None
        db.write(lambda tx: tx.put_variables("a", b"ann", b"{}", START))
        assert db.read(lambda tx: tx.find_variables("a", b"ann")) == b"{}"
