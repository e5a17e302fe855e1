"""Cards behind JPEG pictures: an archive is found by its end, the picture is not read."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
from hypothesis import given, strategies as st

from lorewell import import_file
from lorewell.errors import ImportInvalidError, LorewellError
from lorewell.formats.decode import decode
from lorewell.formats.notes import ImportNotes

ENTRY = {"id": 3, "keys": ["lamp"], "content": "灯。", "enabled": True, "insertion_order": 1}
CARD = {"spec": "chara_card_v3", "data": {"name": "Oda", "character_book": {"entries": [ENTRY]}}}
PICTURE = b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xd9"


def archive(name: str = "card.json") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        written.writestr(name, json.dumps(CARD))
    return file.getvalue()


def absolute(name: str = "card.json") -> bytes:
    """Return a picture with an archive whose offsets count the picture, too."""
    file = io.BytesIO(PICTURE)
    with zipfile.ZipFile(file, "a") as written:
        written.writestr(name, json.dumps(CARD))
    return file.getvalue()


@pytest.mark.parametrize(
    "data", [PICTURE + archive(), absolute(), PICTURE + b"PK\5\6" + archive() + b"\0" * 70_000]
)
def test_archive_behind_a_picture_is_read(data: bytes) -> None:
    found = import_file(data, name="card.jpeg")
    assert [entry.content for entry in found.book.entries] == ["灯。"]
    assert found.report.warnings == ()
    assert decode(data, name="card.jpeg", notes=ImportNotes()).container == "charx"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (PICTURE, "This JPEG has no card data"),
        (PICTURE[:3], "This JPEG has no card data"),
        (PICTURE + archive()[:-1], "This JPEG has no card data"),
        (PICTURE + archive("photo.txt"), "card.json is missing at its root"),
    ],
)
def test_picture_without_a_card_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(ImportInvalidError, match=says) as caught:
        import_file(data, name="card.jpeg")
    assert caught.value.code == "import_invalid"
    assert caught.value.details == {"file": "card.jpeg"}


@given(st.binary(max_size=100), st.integers(0, 22), st.binary(max_size=22))
def test_any_bytes_behind_the_magic(middle: bytes, cut: int, end: bytes) -> None:
    whole = PICTURE[:3] + middle + archive()
    try:
        import_file(whole[: len(whole) - cut] + end, name="card.jpeg")
    except LorewellError as error:
        str(error).encode()
