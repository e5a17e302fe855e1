"""Writing files: whole or not at all, through no link, and never out of a folder."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePath
from typing import Any

import pytest

from lorewell.formats import writing
from lorewell.formats.writing import new_file, write_below, write_file
from program import Lorewell

OLD, NEW = b"old", b"new" * 1000
FULL_AT_BYTES = 150_000


@contextmanager
def full_disk() -> Iterator[None]:
    """Let the system refuse what makes a file large, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_AT_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    path = tmp_path / "book.json"
    path.write_bytes(OLD)
    return path


def test_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    for data in (OLD, NEW, b""):
        write_file(path, data)
        assert path.read_bytes() == data
    assert names(tmp_path) == {"book.json"}


def test_permissions_are_those_of_any_new_file_or_of_the_one_replaced(tmp_path: Path) -> None:
    masked = os.umask(0o027)
    try:
        write_file(tmp_path / "new", NEW)
        write_file(tmp_path / "mine", NEW, mode=0o600)
    finally:
        os.umask(masked)
    assert (mode(tmp_path / "new"), mode(tmp_path / "mine")) == (0o640, 0o600)
    (tmp_path / "new").chmod(0o4604)
    write_file(tmp_path / "new", OLD)
    assert mode(tmp_path / "new") == 0o604  # and no right to run as somebody else


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may")
def test_owner_is_kept_where_the_system_allows_it(there: Path) -> None:
    os.chown(there, 4321, 8765)
    write_file(there, NEW)
    assert (there.stat().st_uid, there.stat().st_gid) == (4321, 8765)


def test_what_is_there_is_kept_unless_it_may_be_replaced(there: Path) -> None:
    with pytest.raises(FileExistsError):
        write_file(there, NEW, replace=False)
    assert there.read_bytes() == OLD
    assert names(there.parent) == {there.name}


def test_what_comes_meanwhile_is_kept_too(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    with pytest.raises(FileExistsError), new_file(path, replace=False):
        path.write_bytes(OLD)
    assert path.read_bytes() == OLD
    assert names(tmp_path) == {"book.json"}


def test_file_system_without_hard_links_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "book.json"
    write_file(path, OLD, replace=False)
    with pytest.raises(FileExistsError):
        write_file(path, NEW, replace=False)
    path.unlink()
    with pytest.raises(FileExistsError), new_file(path, replace=False):
        path.write_bytes(OLD)
    assert path.read_bytes() == OLD
    assert names(tmp_path) == {"book.json"}


@pytest.mark.parametrize("leads_to", ["victim", "nowhere", "."])
@pytest.mark.parametrize("replace", [True, False])
def test_link_is_not_followed(tmp_path: Path, leads_to: str, *, replace: bool) -> None:
    (tmp_path / "victim").write_bytes(OLD)
    link = tmp_path / "book.json"
    link.symlink_to(leads_to)
    with pytest.raises(OSError, match="is a symbolic link, which is not followed"):
        write_file(link, NEW, replace=replace)
    assert (tmp_path / "victim").read_bytes() == OLD
    assert link.is_symlink()
    assert names(tmp_path) == {"victim", "book.json"}


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_only_files_are_replaced(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "place")
    with pytest.raises(OSError, match="is not a regular file"):
        write_file(tmp_path / "place", NEW)
    assert names(tmp_path) == {"place"}


def test_file_that_is_not_to_be_written_is_kept(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # root may write all
    with pytest.raises(PermissionError):
        write_file(there, NEW)
    assert there.read_bytes() == OLD


@pytest.mark.parametrize("failing", ["write", "fsync", "replace", "fchmod"])
def test_failure_leaves_what_was_there_and_nothing_else(
    there: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, failing, refuse)
    with pytest.raises(OSError, match="No space left"):
        write_file(there, NEW)
    monkeypatch.undo()
    assert there.read_bytes() == OLD
    assert names(there.parent) == {there.name}


def test_interruption_leaves_what_was_there(there: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_file(there, replace=True):
        raise KeyboardInterrupt
    assert there.read_bytes() == OLD
    assert names(there.parent) == {there.name}


def test_file_is_on_the_disk_before_it_has_its_name(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("write", "fsync", "replace"):
        real = getattr(os, name)

        def note(*args: Any, _name: str = name, _real: Any = real, **given: Any) -> Any:
            calls.append(_name)
            return _real(*args, **given)

        monkeypatch.setattr(os, name, note)
    write_file(there, NEW)
    assert calls == ["write", "fsync", "replace", "fsync"]  # the last is the folder's


@pytest.mark.parametrize("opens_folders", [True, False])
def test_folders_on_the_way_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, opens_folders: bool
) -> None:
    monkeypatch.setattr(writing, "_OPENS_FOLDERS", opens_folders)
    top = tmp_path / "a" / "out"
    for data in (OLD, NEW):
        write_below(top, PurePath("b/c/book.json"), data)
        assert (top / "b" / "c" / "book.json").read_bytes() == data
    monkeypatch.chdir(top)
    write_below(Path(), PurePath("d/book.json"), OLD)
    assert names(top) == {"b", "d"}
    (top / "d" / "file").write_bytes(OLD)
    with pytest.raises(NotADirectoryError):
        write_below(top, PurePath("d/file/book.json"), NEW)


@pytest.mark.parametrize("opens_folders", [True, False])
@pytest.mark.parametrize("link", ["out", "out/b", "out/b/c", "out/b/c/book.json"])
def test_no_link_leads_out_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str, *, opens_folders: bool
) -> None:
    monkeypatch.setattr(writing, "_OPENS_FOLDERS", opens_folders)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "b" / "c").mkdir(parents=True)
    (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / link).symlink_to(elsewhere)
    with pytest.raises(OSError, match="is a symbolic link, which is not followed"):
        write_below(tmp_path / "out", PurePath("b/c/book.json"), NEW)
    assert [path for path in elsewhere.rglob("*") if path.is_file()] == []


def test_folder_that_becomes_a_link_meanwhile_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    real = os.open

    def swap(path: Any, flags: int, *args: Any, **given: Any) -> int:
        if str(path).endswith(".tmp"):
            (top / "b").rename(top / "was-b")
            (top / "b").symlink_to(elsewhere)
        return real(path, flags, *args, **given)

    monkeypatch.setattr(os, "open", swap)
    write_below(top, PurePath("b/book.json"), NEW)
    assert names(elsewhere) == set()
    assert (top / "was-b" / "book.json").read_bytes() == NEW


@pytest.mark.parametrize("name", ["../book.json", "a/../../book.json", "/book.json"])
def test_name_stays_below_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="leads out of"):
        write_below(tmp_path / "out", PurePath(name), NEW)


@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize("is_folder", [True, False])
def test_full_disk_leaves_the_old_file_of_a_conversion(
    lorewell: Lorewell, *, was_there: bool, is_folder: bool
) -> None:
    books, out = lorewell.folder / "books", lorewell.folder / "out"
    books.mkdir()
    out.mkdir()
    lorewell.file("books/a.json", {"entries": {"0": {"content": "x" * FULL_AT_BYTES}}})
    if was_there:
        (out / "a.json").write_bytes(OLD)
    given = [books, out, "--replace"] if is_folder else [books / "a.json", out / "a.json"]
    with full_disk():
        done = lorewell("convert", *given, "--to", "st_world")
    assert done.code == 1
    assert "can't be written: File too large" in " ".join((done.out + done.err).split())
    assert names(out) == ({"a.json"} if was_there else set())
    assert not was_there or (out / "a.json").read_bytes() == OLD


def test_full_disk_leaves_no_half_of_a_backup(lorewell: Lorewell) -> None:
    made = lorewell.folder / "l.db"
    with closing(sqlite3.connect(made)) as database:
        database.execute(f"CREATE TABLE t AS SELECT zeroblob({2 * FULL_AT_BYTES})")
    with full_disk():
        copy = lorewell.folder / "copy"
        done = lorewell("backup", copy, "--database", f"sqlite:///{made}")
    assert done.code == 7
    assert "Can't write the backup" in done.err
    assert names(lorewell.folder) == {"l.db"}


def test_copy_is_for_those_who_may_read_the_database(lorewell: Lorewell) -> None:
    made, copy = lorewell.folder / "l.db", lorewell.folder / "copy"
    sqlite3.connect(made).close()
    made.write_bytes(b"")
    made.chmod(0o600)
    assert lorewell("backup", copy, "--database", f"sqlite:///{made}").code == 0
    assert mode(copy) == 0o600


def test_backup_follows_no_link(lorewell: Lorewell) -> None:
    made, copy = lorewell.folder / "l.db", lorewell.folder / "copy"
    made.write_bytes(b"")
    copy.symlink_to("elsewhere")
    done = lorewell("backup", copy, "--database", f"sqlite:///{made}")
    assert "copy: it is a symbolic link" in done.err
    assert names(lorewell.folder) == {"l.db", "copy"}
