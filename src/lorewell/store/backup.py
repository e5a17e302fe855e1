"""Online backup of an SQLite database."""

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
    """Copy the database of an `sqlite://` URL into a new file, and return its size in bytes.

    The copy is a consistent snapshot in a single file, and is checked before it gets its name.

    Raises:
        FileNotFoundError: there is no such database.
        ConflictError: the target exists.
        StorageUnavailableError: reading or writing failed, or the copy is damaged.
    """
    path = url.partition("://")[2].removeprefix("/")
    source = Path(path)
    if not path or not source.is_file():
        raise FileNotFoundError(2, os.strerror(2), path)
    with _failing(target):
        mode = stat.S_IMODE(source.stat().st_mode)  # the copy gets the permissions of the database
        with new_file(target, replace=False, mode=mode) as part:
            _copy(source, part.path)
        return target.stat().st_size


def _copy(source: Path, part: Path) -> None:
    with closing(_open(source, "rw")) as old, closing(_open(part, "rw")) as new:
        old.backup(new)
        new.execute("PRAGMA journal_mode = DELETE")  # or the copy would need a WAL file
        (found,) = new.execute("PRAGMA integrity_check").fetchone()
    if found != "ok":
        raise StorageUnavailableError("The copy is damaged and was deleted.", found=found)


def _open(path: Path, mode: str) -> sqlite3.Connection:
    # As a URI: opening by path would create a missing database.
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True)


@contextmanager
def _failing(target: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise ConflictError(
            f"{target} already exists. A backup never overwrites a file."
        ) from error
    except (sqlite3.Error, OSError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise StorageUnavailableError(f"Can't write the backup {target}: {why}.") from error
