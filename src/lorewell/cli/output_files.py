"""Writing the files that a command was asked for."""

from __future__ import annotations

import json
from pathlib import Path

from lorewell.errors import LorewellError
from lorewell.formats import writing
from lorewell.formats.export import Exported


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; a file that was there is replaced.

    Raises:
        LorewellError: it can't be written.
    """
    try:
        writing.write_file(path, data)
    except OSError as error:
        raise LorewellError(f"{path} can't be written: {error.strerror}.") from error


def dumped(exported: Exported) -> bytes:
    """Return an exported document as a JSON file for people."""
    # json, as a whole number may be larger than the 64 bits that orjson takes.
    return (json.dumps(exported.document, ensure_ascii=False, indent=2) + "\n").encode()
