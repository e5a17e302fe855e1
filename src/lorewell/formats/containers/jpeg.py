"""The card behind a JPEG image: a .charx that follows it. The image itself is not read.

Source: docs/rules/formats.md §3.2, §4. No known program writes a card into a JPEG's EXIF.
"""

from __future__ import annotations

from typing import Final

from lorewell.errors import ImportInvalidError
from lorewell.formats.containers import charx
from lorewell.formats.notes import ImportNotes

MAGIC: Final = b"\xff\xd8\xff"


def read_card(data: bytes, notes: ImportNotes) -> bytes:
    """Return `card.json` of the archive behind a JPEG.

    Args:
        data: a file that begins with `MAGIC`.
        notes: collects oddities of the archive.

    Raises:
        ImportInvalidError: no archive follows, or `charx.read_card` refuses it.
    """
    if charx.find_directory(data) is None:
        raise ImportInvalidError("This JPEG has no card data (expected a .charx archive after it).")
    return charx.read_card(data, notes)
