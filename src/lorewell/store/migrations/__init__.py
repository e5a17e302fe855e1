"""Schema migrations, run inside a transaction that the caller has begun and locked."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from threading import Lock

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from lorewell.app.ports import Part
from lorewell.errors import StorageUnavailableError
from lorewell.store.statements import database_errors

NEWER = "The database was made by a newer version of Lorewell."

# Held around `upgrade`: alembic keeps its state in global variables.
turn = Lock()


def upgrade(connection: Connection) -> None:
    """Bring the schema up to date.

    Raises:
        StorageUnavailableError: the schema is newer than this program.
    """
    config = _config()
    config.attributes["connection"] = connection
    with database_errors():
        found = _found(connection)
        unknown = found - _known()
        if unknown:
            raise StorageUnavailableError(NEWER, part="newer_schema", found=sorted(unknown))
        if found != _newest():
            command.upgrade(config, "head")


def find_part(connection: Connection) -> Part | None:
    """Return whether the schema is older or newer than this program; None if it is current."""
    with database_errors():
        found = _found(connection)
    if found - _known():
        return "newer_schema"
    return None if found == _newest() else "migrations"


def _found(connection: Connection) -> frozenset[str]:
    return frozenset(MigrationContext.configure(connection).get_current_heads())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


@cache
def _newest() -> frozenset[str]:
    return frozenset(ScriptDirectory.from_config(_config()).get_heads())


@cache
def _known() -> frozenset[str]:
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return frozenset(script.revision for script in scripts)
