"""What is in here? The short answer for any file, also for one that is no book."""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

from lorewell.engine.steps import Steps
from lorewell.errors import (
    FileTooLargeError,
    InvalidInputError,
    LorewellError,
    TooExpensiveError,
)
from lorewell.formats.containers import charx, jpeg, png, webp
from lorewell.formats.containers.part import ContainerPart
from lorewell.formats.decode import RISUM_MAGIC, decode
from lorewell.formats.detect import CARDS, FileKind, find_kind
from lorewell.formats.files import MAX_FILE_BYTES, check_size
from lorewell.formats.imported import ImportedBook
from lorewell.formats.json_text import first_character, storable
from lorewell.formats.loading import open_bytes
from lorewell.formats.native import FORMAT as NATIVE, is_native
from lorewell.formats.notes import MAX_IMPORT_STEPS, ImportNotes, cut

MAX_PARTS = 20  # named; all are counted
_HEAD_BYTES = 65_536  # of a file that is too large: enough to tell what it is
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_MAX_NAME_CHARS = 200
_TOLD_BY_REPORT = frozenset([NATIVE, *FileKind]) - CARDS


class Container(StrEnum):
    """What holds the document, told by the first bytes alone."""

    PNG = "png"
    JPEG = "jpeg"
    WEBP = "webp"
    ZIP = "zip"
    RISUM = "risum"
    JSON = "json"
    MARKUP = "markup"
    TEXT = "text"
    EMPTY = "empty"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a file is, and what of it can be used.

    Attributes:
        name: the file's name.
        size_bytes: None for what has no size, such as a pipe, and gives more than the limit.
        sha256: of the whole file; None where it is larger than the limit.
        container: what holds the document.
        kind: the report's word for the document inside, such as `card_v2_json` in a PNG; None
            where none was found, or none that we know.
        card_name: the name of the card; None where it is no card or has none.
        parts: text chunks of a PNG, members of an archive: the first `MAX_PARTS` of them.
        part_count: how many there are.
        opened: the book and its report, or why the file can't be read as one.
    """

    name: str
    size_bytes: int | None
    sha256: str | None
    container: Container
    kind: str | None
    card_name: str | None = None
    parts: tuple[ContainerPart, ...] = ()
    part_count: int = 0
    opened: ImportedBook | LorewellError


def inspect_file(path: str | os.PathLike[str]) -> Inspection:
    """Return what is in a file, whatever it is.

    No more than 16 MiB of it are read. That it can't be used is no error here; `opened` says so.

    Raises:
        OSError: the file can't be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "page.json")
    ...     _ = file.write_text("<html>")
    ...     seen = inspect_file(file)
    >>> seen.container.value, seen.kind, seen.opened.code
    ('markup', None, 'import_invalid')
    """
    name = Path(path).name
    with Path(path).open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
        status = os.fstat(file.fileno())
    try:
        check_size(data, name)
    except FileTooLargeError as error:
        return Inspection(
            name=storable(name),
            size_bytes=status.st_size if stat.S_ISREG(status.st_mode) else None,
            sha256=None,
            container=_container(data[:_HEAD_BYTES], Steps(MAX_IMPORT_STEPS), is_whole=False),
            kind=None,
            opened=error,
        )
    return inspect_bytes(data, name=name)


def inspect_bytes(data: bytes, *, name: str) -> Inspection:
    """Return what is in the bytes of a file, as `inspect_file` does.

    Args:
        data: the whole file, at most 16 MiB.
        name: the file's name.
    """
    try:
        opened: ImportedBook | LorewellError = open_bytes(data, name=name)
    except InvalidInputError as error:
        opened = error
    steps = Steps(MAX_IMPORT_STEPS)  # as much again, as it is looked at anew
    kind, card_name = _document(data, name, opened, steps)
    container = _container(data, steps)
    parts, part_count = _parts(data, container)
    return Inspection(
        name=storable(name),
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        container=container,
        kind=kind,
        card_name=card_name,
        parts=parts,
        part_count=part_count,
        opened=opened,
    )


def _container(data: bytes, steps: Steps, *, is_whole: bool = True) -> Container:
    """Return what begins with these bytes; a head of a file may end within a character."""
    for magic, container in _MAGICS:
        if data.startswith(magic):
            return container
    if webp.is_webp(data):
        return Container.WEBP
    encoding = "utf-16" if data.startswith(_UTF_16_MARKS) else "utf-8-sig"
    text = codecs.getincrementaldecoder(encoding)("replace").decode(data, final=is_whole)
    try:
        start = first_character(text, steps)
    except TooExpensiveError:
        return Container.UNKNOWN
    if not start:
        return Container.EMPTY
    if start in "{[":
        return Container.JSON
    if start == "<":
        return Container.MARKUP
    return Container.UNKNOWN if "\ufffd" in text or "\0" in text else Container.TEXT


def _parts(data: bytes, container: Container) -> tuple[tuple[ContainerPart, ...], int]:
    """Return the first parts of a container, and how many it has."""
    found: Iterable[ContainerPart] = ()
    list_parts = _LISTERS.get(container)
    if list_parts is not None:
        found = list_parts(data)
    parts = iter(found)
    named = tuple(islice(parts, MAX_PARTS))
    return named, len(named) + sum(1 for _ in parts)


def _document(
    data: bytes, name: str, opened: ImportedBook | LorewellError, steps: Steps
) -> tuple[str | None, str | None]:
    """Return the word for the document inside, and the name of the card if it is one.

    The report has neither for what comes out of a container, so the document is decoded once more.
    """
    if isinstance(opened, ImportedBook) and opened.report.format in _TOLD_BY_REPORT:
        return opened.report.format, None
    try:
        decoded = decode(data, name=name, notes=ImportNotes(steps))
    except InvalidInputError:
        return None, None
    document = decoded.document.value
    if decoded.container is None and is_native(document):
        return NATIVE, None
    kind = find_kind(document)
    return kind, _card_name(document) if kind in CARDS else None


def _card_name(card: Any) -> str | None:  # noqa: ANN401  JSON can be anything
    data = card.get("data")
    name = (data if isinstance(data, dict) else card).get("name")
    return cut(name, _MAX_NAME_CHARS) if isinstance(name, str) and name.strip() else None


_MAGICS: Sequence[tuple[bytes, Container]] = (
    (png.SIGNATURE[:4], Container.PNG),  # damaged ones too
    (jpeg.MAGIC, Container.JPEG),
    *((magic, Container.ZIP) for magic in charx.MAGICS),
    (RISUM_MAGIC, Container.RISUM),
)
_LISTERS: dict[Container, Callable[[bytes], Iterable[ContainerPart]]] = {
    Container.PNG: png.list_texts,
    Container.JPEG: charx.list_members,
    Container.ZIP: charx.list_members,
}
