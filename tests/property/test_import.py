"""Whatever the bytes: an import gives a book that can be stored, or one of our errors."""

from __future__ import annotations

import json
import zlib
from typing import Any

from hypothesis import example, given, strategies as st

from lorewell import BookCreate, ImportedBook, import_file
from lorewell.errors import LorewellError
from lorewell.model.parse import parse_json, parse_model
from pictures import SIGNATURE, chunk, png, raw_text, text

NAMES = st.sampled_from(
    [
        *("entries", "name", "description", "data", "spec", "spec_version", "character_book"),
        *("extensions", "uid", "id", "key", "keys", "keysecondary", "secondary_keys", "content"),
        *("comment", "order", "insertion_order", "enabled", "disable", "position", "depth"),
        *("role", "probability", "useProbability", "group", "sticky", "selectiveLogic"),
        *("outletName", "triggers", "characterFilter", "kind", "type", "folders", "originalData"),
    ]
)
SPECS = st.sampled_from(["chara_card_v1", "chara_card_v2", "chara_card_v3", "lorebook_v3"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=12)
    | SPECS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(NAMES | st.text(st.characters(), max_size=4), inner, max_size=8)
    ),
    max_leaves=30,
)
ENTRIES = st.lists(st.dictionaries(NAMES, VALUES, max_size=8) | VALUES, max_size=4)
BOOKS = st.dictionaries(NAMES, VALUES, max_size=4).flatmap(
    lambda members: ENTRIES.map(lambda entries: {**members, "entries": entries})
) | ENTRIES.map(lambda entries: {"entries": {str(at): each for at, each in enumerate(entries)}})
CARDS = st.tuples(SPECS, BOOKS | VALUES, VALUES).map(
    lambda parts: {
        "spec": parts[0],
        "data": {"name": parts[2], "character_book": parts[1]},
        "character_book": parts[2],
    }
)
DOCUMENTS = VALUES | BOOKS | CARDS


def taken(data: bytes, name: str = "lore.json") -> ImportedBook | None:
    """Import the bytes; check what came of it if it was no error of ours."""
    try:
        found = import_file(data, name=name)
    except LorewellError as error:
        str(error).encode()
        json.dumps(error.details)
        return None
    encoded = found.book.model_dump_json().encode()
    assert parse_model(BookCreate, parse_json(encoded)) == found.book
    report = found.report
    assert report.entry_count == len(found.book.entries)
    assert report.runtime_blocked_count == len(report.blocked) <= report.entry_count
    ids = {entry.id for entry in found.book.entries}
    assert {warning.entry_id for warning in report.warnings} <= ids | {None}
    assert report.model_dump_json().encode()
    assert import_file(data, name=name) == found
    return found


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    taken(data)


@given(st.text(st.sampled_from('{}[]",:/*\\\n 1e9au\x00'), max_size=60))
@example('{"entries":{"0":{"uid":0,"uid":1,}}}')
def test_any_text_that_looks_like_json(document: str) -> None:
    taken(document.encode())


@given(DOCUMENTS, st.text(st.characters(), max_size=8))
def test_any_json_value(document: Any, name: str) -> None:
    taken(json.dumps(document).encode(), name)


@given(DOCUMENTS, st.data())
def test_any_damaged_json(document: Any, data: st.DataObject) -> None:
    encoded = json.dumps(document).encode()
    at = data.draw(st.integers(0, len(encoded)))
    taken(encoded[:at] + data.draw(st.binary(max_size=3)) + encoded[at:])


@given(CARDS | DOCUMENTS, st.sampled_from(["chara", "ccv3", "Chara", "naidata"]))
def test_any_card_in_a_picture_gives_the_entries_of_its_json(document: Any, keyword: str) -> None:
    in_picture = taken(png(text(document, keyword)))
    if in_picture is not None:
        alone = taken(json.dumps(document).encode())
        assert alone is not None
        assert alone.book.entries == in_picture.book.entries


CHUNKS = st.tuples(
    st.sampled_from([b"tEXt", b"zTXt", b"iTXt", b"IDAT", b"IEND", b"\0\0\0\0"]),
    st.sampled_from([b"chara\0", b"ccv3\0", b"naidata\0", b""]),
    st.binary(max_size=20) | st.binary(max_size=20).map(lambda body: b"\0" + zlib.compress(body)),
    st.none() | st.integers(0, 2**32 - 1),
).map(lambda parts: chunk(parts[0], parts[1] + parts[2], size=parts[3]))


@given(st.lists(CHUNKS, max_size=4), st.integers(0, 10))
def test_any_picture(chunks: list[bytes], cut: int) -> None:
    data = SIGNATURE + b"".join(chunks)
    taken(data[: len(data) - cut])
    taken(png(*chunks, raw_text(b"e30=")))
