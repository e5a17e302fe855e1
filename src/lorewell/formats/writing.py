"""Writing a file whole or not at all.

The bytes go into a new file beside the place, are forced to the disk, and only then take the
place. A full disk, a crash or an interruption therefore leaves what was there before. A symbolic
link is never followed: neither in the place nor, below a folder, on the way to it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final, NamedTuple

_NEW: Final = (
    os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
)
# Windows opens no folders; there the way is only looked at before it is taken.
_OPENS_FOLDERS: Final = hasattr(os, "O_DIRECTORY")
_LINK: Final = "it is a symbolic link, which is not followed"
_NO_FILE: Final = "it is not a regular file"
_PERMISSIONS: Final = 0o777


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """A folder that is written to.

    Attributes:
        path: of it.
        fd: the open folder, where names count from it and not from its path; else None.
    """

    path: Path
    fd: int | None = None

    def at(self, name: str) -> str:
        """Return what the system takes for a name in the folder."""
        return str(self.path / name) if self.fd is None else name


class NewFile(NamedTuple):
    """A new file that has not taken its place yet: its path, and its open descriptor."""

    path: Path
    fd: int


def write_file(path: Path, data: bytes, *, replace: bool = True, mode: int = 0o666) -> None:
    """Write a file. Its folder has to be there, and may be reached through links.

    A file that is replaced hands on its permissions, and its owner where the system allows it.

    Args:
        path: the place.
        data: all of the file.
        replace: whether a file that is there is replaced.
        mode: permissions of a file that was not there, less those that the process masks.

    Raises:
        FileExistsError: something is there, and is not to be replaced.
        OSError: the place is a link or no file, or the file can't be written.
    """
    with new_file(path, replace=replace, mode=mode) as file:
        _write_all(file.fd, data)


def write_below(top: Path, name: PurePath, data: bytes, *, replace: bool = True) -> None:
    """Write a file below a folder, with the folders on the way; never outside of it.

    Args:
        top: the folder; made if it is not there.
        name: the place, from there.
        data: all of the file.
        replace: whether a file that is there is replaced.

    Raises:
        FileExistsError: something is there, and is not to be replaced.
        ValueError: the name leads out of the folder.
        OSError: the folder, the place or something on the way is a link, or the file can't be
            written.
    """
    if name.is_absolute() or ".." in name.parts:
        raise ValueError(f"{name} leads out of {top}")
    top.mkdir(parents=True, exist_ok=True)
    with (
        _way(top, name.parts[:-1]) as folder,
        _beside(folder, name.name, replace=replace, mode=0o666) as file,
    ):
        _write_all(file.fd, data)


@contextmanager
def new_file(path: Path, *, replace: bool, mode: int = 0o666) -> Iterator[NewFile]:
    """Give a new file, which takes its place at the end, and is removed if that is not reached.

    Args and errors are those of `write_file`.
    """
    with _beside(_Folder(path=path.parent), path.name, replace=replace, mode=mode) as file:
        yield file


@contextmanager
def _beside(folder: _Folder, name: str, *, replace: bool, mode: int) -> Iterator[NewFile]:
    before = _replaceable(folder, name)
    if before is not None and not replace:
        raise _error(errno.EEXIST, folder.path / name)
    hidden = f".lorewell-{secrets.token_hex(8)}.tmp"
    fd = os.open(folder.at(hidden), _NEW, mode, dir_fd=folder.fd)
    try:
        try:
            if before is not None:
                _hand_on(before, fd)
            yield NewFile(folder.path / hidden, fd)
            os.fsync(fd)
        finally:
            os.close(fd)
        _put_in_place(folder, hidden, name, replace=replace)
    except BaseException:
        with suppress(OSError):
            os.unlink(folder.at(hidden), dir_fd=folder.fd)
        raise
    _sync(folder)


def _replaceable(folder: _Folder, name: str) -> os.stat_result | None:
    """Return what is known of the file in the place, None if there is none."""
    path = folder.path / name
    try:
        found = os.stat(folder.at(name), dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise _error(errno.ELOOP, path, _LINK)
    if not stat.S_ISREG(found.st_mode):
        raise _error(errno.EINVAL, path, _NO_FILE)
    if not os.access(folder.at(name), os.W_OK, dir_fd=folder.fd):
        raise _error(errno.EACCES, path)
    return found


def _hand_on(before: os.stat_result, fd: int) -> None:
    with suppress(OSError, AttributeError):  # another's file, or Windows
        os.fchown(fd, before.st_uid, before.st_gid)
    with suppress(AttributeError):
        os.fchmod(fd, stat.S_IMODE(before.st_mode) & _PERMISSIONS)


def _put_in_place(folder: _Folder, hidden: str, name: str, *, replace: bool) -> None:
    old, new, fd = folder.at(hidden), folder.at(name), folder.fd
    if not replace:
        try:
            os.link(old, new, src_dir_fd=fd, dst_dir_fd=fd)  # never over what came meanwhile
        except OSError:  # something is there, or the file system has no hard links
            if _replaceable(folder, name) is not None:
                raise _error(errno.EEXIST, folder.path / name) from None
        else:
            os.unlink(old, dir_fd=fd)
            return
    os.replace(old, new, src_dir_fd=fd, dst_dir_fd=fd)


def _sync(folder: _Folder) -> None:
    """Force the name to the disk, where a folder can be."""
    with suppress(OSError):
        fd = os.open(folder.path, os.O_RDONLY) if folder.fd is None else folder.fd
        try:
            os.fsync(fd)
        finally:
            if folder.fd is None:
                os.close(fd)


@contextmanager
def _way(top: Path, names: tuple[str, ...]) -> Iterator[_Folder]:
    """Give the last of the folders, each made if it is not there; none may be a link."""
    folder = _open(_Folder(path=top.parent), top.name) if top.name else _Folder(path=top)
    try:
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(folder.at(name), dir_fd=folder.fd)
            below = _open(folder, name)
            _close(folder)
            folder = below
        yield folder
    finally:
        _close(folder)


def _open(folder: _Folder, name: str) -> _Folder:
    path = folder.path / name
    try:
        if not _OPENS_FOLDERS:
            return _checked(path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        return _Folder(path=path, fd=os.open(folder.at(name), flags, dir_fd=folder.fd))
    except OSError:
        if path.is_symlink():
            raise _error(
                errno.ELOOP, path, f"{path} is a symbolic link, which is not followed"
            ) from None
        raise


def _checked(path: Path) -> _Folder:
    if path.is_symlink() or not path.is_dir():
        raise _error(errno.ENOTDIR, path)
    return _Folder(path=path)


def _close(folder: _Folder) -> None:
    if folder.fd is not None:
        os.close(folder.fd)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _error(code: int, path: Path, why: str | None = None) -> OSError:
    return OSError(code, os.strerror(code) if why is None else why, str(path))
