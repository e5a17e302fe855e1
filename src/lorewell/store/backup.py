"""Copying an SQLite database that is in use."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from lorewell.errors import ConflictError, StorageUnavailableError
from lorewell.formats.writing import new_file


def copy_sqlite(url: str, target: Path) -> int:
    """Copy the database of an `sqlite://` URL into a new file, and return the bytes of the copy.

    The copy is one consistent moment, is checked before it gets its name, and needs no other file.

    Raises:
        FileNotFoundError: there is no such database.
        ConflictError: the target is there already.
        StorageUnavailableError: the database can't be read, the copy can't be written, or the copy
            is damaged.
    """
    path = url.partition("://")[2].removeprefix("/")
    source = Path(path)
    if not path or not source.is_file():
        raise FileNotFoundError(2, os.strerror(2), path)
    with _failing(target):
        mode = stat.S_IMODE(source.stat().st_mode)  # who may read the database may read the copy
        with new_file(target, replace=False, mode=mode) as part:
            _copy(source, part.path)
        return target.stat().st_size


def _copy(source: Path, part: Path) -> None:
    with closing(_open(source, "rw")) as old, closing(_open(part, "rw")) as new:
        old.backup(new)
        new.execute("PRAGMA journal_mode = DELETE")  # or the copy would need files beside it
        (found,) = new.execute("PRAGMA integrity_check").fetchone()
    if found != "ok":
        raise StorageUnavailableError("The copy is damaged; it was thrown away.", found=found)


def _open(path: Path, mode: str) -> sqlite3.Connection:
    # As a URI: opening by path would make a database that is not there.
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True)


@contextmanager
def _failing(target: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise ConflictError(f"{target} is there already; a backup replaces nothing.") from error
    except (sqlite3.Error, OSError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise StorageUnavailableError(f"The backup {target} can't be made: {why}.") from error
