"""Summarizes any file, also one that is not a book."""

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

MAX_PARTS = 20  # listed; all are counted
_HEAD_BYTES = 65_536  # of a file that is too large: enough to identify its container
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_MAX_NAME_CHARS = 200
_REPORTED_KINDS = frozenset([NATIVE, *FileKind]) - CARDS


class Container(StrEnum):
    """The container of a document, identified by the first bytes."""

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
    """The summary of a file.

    Attributes:
        name: the file's name.
        size_bytes: its size; None for a pipe that gives more than the limit.
        sha256: hash of the whole file; None if it is larger than the limit.
        container: the container of the document.
        kind: kind of the document inside, such as `card_v2_json` in a PNG; None if there is no
            document of a known kind.
        card_name: name of the card; None if the document is not a card or has no name.
        parts: the first `MAX_PARTS` text chunks of a PNG or members of an archive.
        part_count: number of all parts.
        opened: the book with its report, or the error that an import raises.
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
    """Return the summary of any file.

    At most 16 MiB of it are read. A file that can't be imported raises nothing; `opened` has the
    error.

    Raises:
        OSError: the file can't be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "page.json")
    ...     _ = file.write_text("<html>")
    ...     found = inspect_file(file)
    >>> found.container.value, found.kind, found.opened.code
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
    """Return the summary of a file's bytes, as `inspect_file` does.

    Args:
        data: the whole file, at most 16 MiB.
        name: the file's name.
    """
    try:
        opened: ImportedBook | LorewellError = open_bytes(data, name=name)
    except InvalidInputError as error:
        opened = error
    steps = Steps(MAX_IMPORT_STEPS)  # a second budget, as the file is decoded again
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
    """Return the container of these bytes; the head of a file may end within a character."""
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
    """Return the first parts of a container, and the number of all."""
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
    """Return the kind of the document inside, and the name of the card if it is one.

    The report has neither for a document out of a container, so it is decoded again.
    """
    if isinstance(opened, ImportedBook) and opened.report.format in _REPORTED_KINDS:
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
    (png.SIGNATURE[:4], Container.PNG),  # also with a damaged signature
    (jpeg.MAGIC, Container.JPEG),
    *((magic, Container.ZIP) for magic in charx.MAGICS),
    (RISUM_MAGIC, Container.RISUM),
)
_LISTERS: dict[Container, Callable[[bytes], Iterable[ContainerPart]]] = {
    Container.PNG: png.list_texts,
    Container.JPEG: charx.list_members,
    Container.ZIP: charx.list_members,
}
