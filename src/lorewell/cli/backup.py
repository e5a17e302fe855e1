"""Copies a database, or prints the command that does."""

from __future__ import annotations

import shlex
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from lorewell.cli.printing import say
from lorewell.errors import ValidationFailedError
from lorewell.store.backup import copy_sqlite

_SECRETS = frozenset({"password", "sslpassword", "passfile"})


def back_up(url: str, target: Path) -> int:
    """Copy a database into a new file, and return the size of the copy in bytes.

    Raises:
        ValidationFailedError: the database is PostgreSQL; its `pg_dump` command is printed.
        FileNotFoundError, ConflictError, StorageUnavailableError: as `copy_sqlite`.
    """
    if url.partition("://")[0].lower() != "sqlite":
        say(pg_dump_command(url, target))
        raise ValidationFailedError(
            "Only SQLite databases can be copied here. Run the printed pg_dump command."
        )
    return copy_sqlite(url, target)


def pg_dump_command(url: str, target: Path) -> str:
    """Return the command that copies a PostgreSQL database, without the password.

    >>> pg_dump_command("postgresql://ann:secret@db:5432/lore?sslmode=require", Path("a.dump"))
    "pg_dump --format=custom --file=a.dump 'postgresql://ann@db:5432/lore?sslmode=require'"
    """
    shown = _without_password(url.partition("://")[2])
    return f"pg_dump --format=custom --file={shlex.quote(str(target))} {shlex.quote(shown)}"


def _without_password(rest: str) -> str:
    """Return the URL without its secrets.

    Where an unquoted password makes the parts ambiguous, a placeholder is returned.
    """
    place, _, query = rest.partition("?")
    authority, slash, path = place.partition("/")
    user, _, host = authority.rpartition("@")
    port = host.rpartition("]")[2].partition(":")[2]
    if "@" in path or "#" in place or (port and not port.isdecimal()):
        return "postgresql://USER@HOST/DATABASE"
    name = user.partition(":")[0]
    kept = [each for each in parse_qsl(query) if each[0].lower() not in _SECRETS]
    shown_query = f"?{urlencode(kept)}" if kept else ""
    return f"postgresql://{name and name + '@'}{host}{slash}{path}{shown_query}"
