"""Reads JSON files of bounded size; errors name the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lorewell.engine.steps import Steps
from lorewell.errors import FileTooLargeError, ImportInvalidError, InvalidInputError
from lorewell.formats.json_text import check_structure
from lorewell.formats.notes import MAX_IMPORT_STEPS
from lorewell.model.parse import decode, parse_json

MAX_FILE_BYTES = 16 * 1024 * 1024  # docs/rules/native.md §7
_UTF8_MARK = b"\xef\xbb\xbf"


def load_json(path: str | os.PathLike[str]) -> object:
    """Return the JSON document in a file: UTF-8, with or without a byte order mark.

    Raises:
        FileTooLargeError: the file is larger than 16 MiB; no more than that is read.
        ImportInvalidError: the file is empty, a web page, truncated or invalid JSON.
        OSError: the file can't be read.
    """
    name = Path(path).name
    data = read_bytes(path)
    start = data.removeprefix(_UTF8_MARK).lstrip()[:1]
    if not start:
        raise ImportInvalidError(f"{name} is empty.", file=name)
    if start == b"<":
        raise ImportInvalidError(f"{name} is a web page (HTML or XML), not JSON.", file=name)
    try:
        return parse_file(data, Steps(MAX_IMPORT_STEPS))
    except InvalidInputError as error:
        raise ImportInvalidError(f"{name} can't be read: {error}", file=name) from error


def parse_file(data: bytes, steps: Steps) -> Any:  # noqa: ANN401  a JSON document can be anything
    """Return the JSON document in the bytes of a file.

    Raises:
        MalformedJsonError: as `parse_json`.
        ImportInvalidError: it holds more than 1,000,000 values and names.
        TooExpensiveError: the budget of `steps` is used up.
    """
    check_structure(decode(data), steps)
    return parse_json(data)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file.

    Raises:
        FileTooLargeError: the file is larger than 16 MiB; no more than that is read.
        OSError: the file can't be read.
    """
    with Path(path).open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)  # pipes have no size to check beforehand
    check_size(data, Path(path).name)
    return data


def check_size(data: bytes, name: str) -> None:
    """Check that a file is not larger than 16 MiB.

    Raises:
        FileTooLargeError: it is.
    """
    if len(data) > MAX_FILE_BYTES:
        limit = f"{MAX_FILE_BYTES // 1024**2} MiB"
        raise FileTooLargeError(
            f"{name} is larger than {limit}, the limit for one file.",
            file=name,
            limit_bytes=MAX_FILE_BYTES,
        )
