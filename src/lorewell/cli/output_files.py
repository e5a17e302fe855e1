"""Writes the output files of commands."""

from __future__ import annotations

import json
from pathlib import Path

from lorewell.errors import LorewellError
from lorewell.formats import writing
from lorewell.formats.export import Exported


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, replacing an existing one.

    Raises:
        LorewellError: the file can't be written.
    """
    try:
        writing.write_file(path, data)
    except OSError as error:
        raise LorewellError(f"{path} can't be written: {error.strerror}.") from error


def encode_export(exported: Exported) -> bytes:
    """Return an exported document as an indented JSON file."""
    # The standard json: orjson rejects integers of more than 64 bits.
    return (json.dumps(exported.document, ensure_ascii=False, indent=2) + "\n").encode()
