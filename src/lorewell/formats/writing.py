"""Writes files atomically.

The bytes go into a new file in the same folder, which is synced to the disk and then renamed. A
full disk, a crash or an interruption therefore leaves the old file. Symbolic links are never
followed: neither as the target nor, below a top folder, on the way to it.
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
# Windows can't open folders; there each folder is checked before it is used.
_OPENS_FOLDERS: Final = hasattr(os, "O_DIRECTORY")
_LINK: Final = "it is a symbolic link, which is not followed"
_NOT_A_FILE: Final = "it is not a regular file"
_PERMISSIONS: Final = 0o777


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """A folder to write into.

    Attributes:
        path: its path.
        fd: its open descriptor, which names are relative to; None to use the path.
    """

    path: Path
    fd: int | None = None

    def at(self, name: str) -> str:
        """Return the path of a name in the folder, as system calls need it."""
        return str(self.path / name) if self.fd is None else name


class NewFile(NamedTuple):
    """A new file that is not in place yet: its temporary path and its open descriptor."""

    path: Path
    fd: int


def write_file(path: Path, data: bytes, *, replace: bool = True, mode: int = 0o666) -> None:
    """Write a file. Its folder must exist, and may be reached through links.

    A replaced file keeps its permissions, and its owner if the system allows it.

    Args:
        path: the target.
        data: the whole content.
        replace: whether to replace an existing file.
        mode: permissions of a new file, before the umask.

    Raises:
        FileExistsError: the target exists and `replace` is false.
        OSError: the target is a link or not a regular file, or the file can't be written.
    """
    with new_file(path, replace=replace, mode=mode) as file:
        _write_all(file.fd, data)


def write_below(top: Path, name: PurePath, data: bytes, *, replace: bool = True) -> None:
    """Write a file below a folder, never outside of it; missing folders are created.

    Args:
        top: the folder.
        name: the target, relative to it.
        data: the whole content.
        replace: whether to replace an existing file.

    Raises:
        FileExistsError: the target exists and `replace` is false.
        ValueError: the name leads out of the folder.
        OSError: the folder, the target or a folder on the way is a link, or the file can't be
            written.
    """
    if name.is_absolute() or ".." in name.parts:
        raise ValueError(f"{name} leads out of {top}")
    top.mkdir(parents=True, exist_ok=True)
    with (
        _opened_folder(top, name.parts[:-1]) as folder,
        _new_file(folder, name.name, replace=replace, mode=0o666) as file,
    ):
        _write_all(file.fd, data)


@contextmanager
def new_file(path: Path, *, replace: bool, mode: int = 0o666) -> Iterator[NewFile]:
    """Yield a new file that is put in place at the end, or removed on an error.

    Args and errors are those of `write_file`.
    """
    with _new_file(_Folder(path=path.parent), path.name, replace=replace, mode=mode) as file:
        yield file


@contextmanager
def _new_file(folder: _Folder, name: str, *, replace: bool, mode: int) -> Iterator[NewFile]:
    before = _replaceable(folder, name)
    if before is not None and not replace:
        raise _error(errno.EEXIST, folder.path / name)
    hidden = f".lorewell-{secrets.token_hex(8)}.tmp"
    fd = os.open(folder.at(hidden), _NEW, mode, dir_fd=folder.fd)
    try:
        try:
            if before is not None:
                _copy_permissions(before, fd)
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
    """Return the status of the file at the target; None if there is none.

    Raises:
        OSError: the target is a link, not a regular file, or not writable.
    """
    path = folder.path / name
    try:
        found = os.stat(folder.at(name), dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise _error(errno.ELOOP, path, _LINK)
    if not stat.S_ISREG(found.st_mode):
        raise _error(errno.EINVAL, path, _NOT_A_FILE)
    if not os.access(folder.at(name), os.W_OK, dir_fd=folder.fd):
        raise _error(errno.EACCES, path)
    return found


def _copy_permissions(before: os.stat_result, fd: int) -> None:
    with suppress(OSError, AttributeError):  # another user's file, or Windows
        os.fchown(fd, before.st_uid, before.st_gid)
    with suppress(AttributeError):
        os.fchmod(fd, stat.S_IMODE(before.st_mode) & _PERMISSIONS)


def _put_in_place(folder: _Folder, hidden: str, name: str, *, replace: bool) -> None:
    old, new, fd = folder.at(hidden), folder.at(name), folder.fd
    if not replace:
        try:
            os.link(old, new, src_dir_fd=fd, dst_dir_fd=fd)  # never replaces a file
        except OSError:  # the target exists, or the file system has no hard links
            if _replaceable(folder, name) is not None:
                raise _error(errno.EEXIST, folder.path / name) from None
        else:
            os.unlink(old, dir_fd=fd)
            return
    os.replace(old, new, src_dir_fd=fd, dst_dir_fd=fd)


def _sync(folder: _Folder) -> None:
    """Sync the folder to the disk, if the system can."""
    with suppress(OSError):
        fd = os.open(folder.path, os.O_RDONLY) if folder.fd is None else folder.fd
        try:
            os.fsync(fd)
        finally:
            if folder.fd is None:
                os.close(fd)


@contextmanager
def _opened_folder(top: Path, names: tuple[str, ...]) -> Iterator[_Folder]:
    """Yield the last of nested folders; missing ones are created, and none may be a link."""
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
            message = f"{path} is a symbolic link, which is not followed"
            raise _error(errno.ELOOP, path, message) from None
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
