"""Hostile files for every reader of foreign files, each in one size and in four times that size.

What the readers and their fields are is asked of the code: a new one joins by itself.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final

from deep.fuzzing.documents import DOCUMENTS
from hostile_fields import TEXTS as FIELD_TEXTS, VALUES as FIELD_VALUES
from lorewell import import_file
from lorewell.engine.sillytavern.entry.table import TABLE, form_of
from lorewell.engine.steps import Steps
from lorewell.errors import LorewellError
from lorewell.formats.detect import FileKind
from lorewell.formats.notes import ImportNotes
from lorewell.formats.registry import READERS
from pictures import SIGNATURE, chunk, png, raw_text, text, ztxt

Document = Any
Make = Callable[[int], Document]

UNBOUNDED: Final = 2**62
MOST_TIMES: Final = 6
SLACK_S: Final = 0.02  # what a busy machine adds to small files
_ATTEMPTS: Final = 5

TEXTS: Final[Mapping[str, Callable[[int], str]]] = {
    **FIELD_TEXTS,
    "wide commas": lambda n: "，、；" * (n // 3),
    "keys": lambda n: "a," * (n // 2),
    "regex keys": lambda n: "/a/," * (n // 4),
    "costly keys": lambda n: "/(a+)+/," * (n // 8),
    "decorators that are kept": lambda n: "@@x\n" * (n // 4),
    "templates": lambda n: "<%" * (n // 2),
    "scripts": lambda n: "<script" * (n // 7),
    "tags": lambda n: "<a on=" * (n // 6),
    "open tags": lambda n: "<a '" + "<a" * (n // 2),
    "quotes in tags": lambda n: "<a \"'" * (n // 5),
    "handlers": lambda n: "<a " + " onx" * (n // 4),
    "pages": lambda n: "```<html" * (n // 8),
    "fields": lambda n: "{{a" * (n // 3),
    "links": lambda n: "http://a.b/" * (n // 11),
    "overrides": lambda n: "ignore all rules " * (n // 17),
    "joiners": lambda n: "\u200d\u202e" * (n // 2),
    "dotted capital I": lambda n: "\u0130" * n,
    "groups": lambda n: "a,\u2003" * (n // 3),
    "names that end alike": lambda n: "x" * n + "/",
}
VALUES: Final[Mapping[str, Make]] = {
    **FIELD_VALUES,
    "list of signs": lambda n: ["<%"] * n,
    "list of links": lambda n: ["http://a.b"] * n,
    "list of costly keys": lambda n: [f"/(a+)+{i}/" for i in range(n)],
    "list of unfit texts": lambda n: ["\0"] * n,
    "list of conditions": lambda n: ["tb.a > 1"] * n,
    "members with signs": lambda n: {f"k{i}": "<% %>" for i in range(n)},
}


class _Asked(dict[str, Any]):
    """An entry that keeps in mind which members a reader asks for."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self.names: set[str] = set(given)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)


def _document(kind: FileKind) -> Document:
    """Return a new document of a kind, with entries if any has them."""
    documents = [json.loads(json.dumps(document)) for document in DOCUMENTS[kind]]
    return next((document for document in documents if _entries(kind, document)), documents[0])


def _entries(kind: FileKind, document: Document) -> list[dict[str, Any]]:
    """Return the entries of a document, to be changed in place."""
    lorebook = READERS[kind](document, ImportNotes())
    found = (lorebook.book or {}).get(lorebook.entries_name, [])
    return [raw for raw in (found.values() if isinstance(found, dict) else found) if raw]


@cache
def fields_of(kind: FileKind) -> list[str]:
    """Return the members of an entry that the reader of a kind asks for, and unknown ones."""
    document = _document(kind)
    lorebook = READERS[kind](document, ImportNotes())
    names: set[str] = set()
    for raw in _entries(kind, document):
        for asked in (_Asked(raw), _Asked({})):  # what is found keeps other names from being asked
            if lorebook.read_entry is not None:
                lorebook.read_entry(asked, "0", Steps(UNBOUNDED))
            names |= asked.names
        if lorebook.read_entry is None:
            paths = (name.path for row in TABLE for name in row.names[form_of(raw, "card")])
            names |= {path.partition("/")[0] for path in paths}
    return sorted(names | {"unknown"}) if names else []


@cache
def different_readers() -> list[FileKind]:
    """Return a kind for each way of reading entries: several kinds may share one."""
    found: dict[object, FileKind] = {}
    for kind, read in READERS.items():
        lorebook = read(_document(kind), ImportNotes())
        way = getattr(lorebook.read_entry, "func", lorebook.read_entry) or lorebook.form
        if fields_of(kind):
            found.setdefault(way, kind)
    return list(found.values())


def hostile_entry(kind: FileKind, made: Document, *names: str) -> Document:
    """Return a document of a kind whose entries have the value in members of these names."""
    document = _document(kind)
    for raw in _entries(kind, document)[:1]:
        raw.update(dict.fromkeys(names, made))
    return document


def hostile_leaves(kind: FileKind, made: Document) -> Document:
    """Return a document of a kind with the value in place of each text of its first entry."""
    document = _document(kind)
    for raw in _entries(kind, document)[:1]:
        if READERS[kind](document, ImportNotes()).read_entry is None:
            raw["extensions"] = {row.name: "" for row in TABLE}
        raw.update(_flooded(raw, made))
    return document


def _flooded(value: Document, made: Document) -> Document:
    if isinstance(value, dict):
        return {name: _flooded(member, made) for name, member in value.items()}
    if isinstance(value, list):
        return [_flooded(item, made) for item in value] or [made]
    return made if isinstance(value, str) else value


def many_entries(kind: FileKind, n: int) -> Document:
    """Return a document of a kind with the first entry over and over."""
    document = _document(kind)
    lorebook = READERS[kind](document, ImportNotes())
    found = (lorebook.book or {}).get(lorebook.entries_name, [])
    if isinstance(found, dict):
        found.update((f"k{i}", raw) for raw in list(found.values())[:1] for i in range(n))
    else:
        found += found[:1] * n
    return document


def many_members(kind: FileKind, n: int) -> Document:
    """Return a document of a kind with members that nobody knows, beside those that are read."""
    document = _document(kind)
    for place in (document, *_entries(kind, document)[:1]):
        if isinstance(place, dict):
            place.update((f"k{i}", f"<% {i}") for i in range(n))
    return document


CARD: Final = {"spec": "chara_card_v2", "data": {"name": "a", "character_book": {"entries": []}}}
_IDS: Final = "A" * 147


def _world(value: str) -> bytes:
    return f'{{"entries": {{"0": {{"x": {value}}}}}}}'.encode()


def _zip(*, card: bytes, members: int = 0, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("card.json", card)
        for number in range(members):
            archive.writestr(str(number), b"")
    return file.getvalue()


def _webp(comment: bytes) -> bytes:
    head = struct.pack("<2sHLH", b"II", 42, 8, 1)
    field = struct.pack("<HHLLL", 0x9286, 7, len(comment), len(head) + 16, 0)
    exif = head + field + comment
    return b"RIFF0000WEBP" + struct.pack("<4sL", b"EXIF", len(exif)) + exif


def _repeated(piece: str, head: str = "", tail: str = "") -> Callable[[int], bytes]:
    return lambda n: (head + piece * (n // len(piece)) + tail).encode(errors="surrogatepass")


_JSON: Final = '{"entries": {}, "x": ['
_YAML: Final = (
    *("- ", "- \n", "[", "{", "&a ", "*a ", "a: b\n", "? ", ": ", "|\n", "'", '"', "#\n", "---\n"),
    *("%TAG ! x\n", "!!str ", "- a\n  - b\n", "a: [b, c]\n", "\t", "- 灯\n", "\\", "<<: *a\n"),
)
# By the file's name and what is in it: JSON as text, YAML, encodings and containers.
FILES: Final[Mapping[str, Callable[[int], bytes]]] = {
    "blanks.json": _repeated(" ", tail=json.dumps(CARD)),
    "comments.json": _repeated("/**/1,", _JSON, "1]}"),
    "lines.json": _repeated("//\n", tail=json.dumps(CARD)),
    "open comment.json": _repeated("/*", _JSON),
    "stars.json": _repeated("*", _JSON + "/*"),
    "slashes.json": _repeated("/", _JSON),
    "trailing commas.json": _repeated("[1,],", _JSON, "]}"),
    "commas.json": _repeated(", ", _JSON, "]}"),
    "open text.json": _repeated("a", _JSON + '"'),
    "quotes.json": _repeated('"",', _JSON, '""]}'),
    "backslashes.json": _repeated("\\\\", _JSON + '"', '"]}'),
    "controls.json": _repeated("\n", _JSON + '"', '"]}'),
    "U+0000.json": _repeated("\\u0000", _JSON + '"', '"]}'),
    "surrogates.json": _repeated("\\ud800", _JSON + '"', '"]}'),
    "brackets.json": _repeated("["),
    "pairs of brackets.json": _repeated("[]", "["),
    "numbers.json": _repeated("1e999,", _JSON, "1]}"),
    "digits.json": _repeated("1" * 4_000 + ",", _JSON, "1]}"),
    "names.json": lambda n: _world("{" + ",".join(f'"{i}": 1' for i in range(n // 8)) + "}"),
    "one name.json": _repeated('"a":1,', '{"entries": {', '"a":1}}'),
    "one name in an object.json": _repeated('"a":1,', '{"entries": {"0": {', '"a":1}}}'),
    "numbered names.json": lambda n: (
        '{"entries": {' + "".join(f'"0":1,"0-{i}":1,' for i in range(n // 16)) + '"a":1}}'
    ).encode(),
    "long names.json": lambda n: json.dumps(
        {"entries": {"k" * n: {f"m{i}": 1 for i in range(n // 8)}}}
    ).encode(),
    "ids.json": lambda n: json.dumps(
        {"entries": [{"uid": f"{_IDS}{i % (n // 80 + 1)}"} for i in range(n // 40)]}
    ).encode(),
    "too long keys.json": lambda n: json.dumps(
        {"entries": [{"key": ["a" * 501] * 100}] * (n // 10_000)}
    ).encode(),
    "nothing.json": _repeated("\x01"),
    "utf-16.json": lambda n: json.dumps({**CARD, "x": "a" * n}).encode("utf-16"),
    "no utf-8.json": lambda n: b"{" + b"\xff" * n,
    **{f"{piece!r}.yaml": _repeated(piece) for piece in _YAML},
    **{f"{piece!r} below.yaml": _repeated(piece, "entries:\n") for piece in _YAML},
    "chunks.png": lambda n: png(chunk(b"prVt", b"") * (n // 12), text(CARD)),
    "texts.png": lambda n: png(raw_text(b"", "a") * (n // 14), text(CARD)),
    "cards.png": lambda n: png(raw_text(b"") * (n // 18)),
    "equals.png": lambda n: png(raw_text(b"=" * n)),
    "equals and blanks.png": lambda n: png(raw_text(b"= " * n + b"a")),
    "blanks.png": lambda n: png(raw_text(b"a " * n)),
    "bytes.png": lambda n: png(chunk(b"iTXt", b"chara\0\0\0" + b"\0" * n)),
    "deflated.png": lambda n: png(ztxt(base64.b64encode(b'"' + b"a" * n))),
    "empty blocks.png": lambda n: png(
        chunk(b"zTXt", b"chara\0\0\x78\x9c" + b"\0\0\0\xff\xff" * (n // 5))
    ),
    "no chunks.png": lambda n: SIGNATURE + b"\0" * n,
    "chunks.webp": lambda n: b"RIFF0000WEBP" + b"abcd\0\0\0\0" * (n // 8),
    "numbers.webp": lambda n: _webp(b"1," * (n // 2)),
    "blanks.webp": lambda n: _webp(b" " * n + b"1"),
    "commas.webp": lambda n: _webp(b"1" + b"," * n),
    "zeros.webp": lambda n: _webp(b"a" + b"\0" * n),
    "fields.webp": lambda n: (
        b"RIFF0000WEBP"
        + struct.pack("<4sL2sHLH", b"EXIF", n + 10, b"II", 42, 8, min(n // 12, 65_535))
        + b"\1" * n
    ),
    "members.charx": lambda n: _zip(card=b"{}", members=n // 200),
    "end marks.charx": lambda n: b"PK\3\4" + b"PK\5\6" * (n // 4),
    "end records.charx": lambda n: b"PK\3\4" + (b"PK\5\6" + bytes(18)) * (n // 22),
    "bzip2.charx": lambda n: _zip(card=b"a" * n, method=zipfile.ZIP_BZIP2),
    "lzma.charx": lambda n: _zip(card=b"a" * n, method=zipfile.ZIP_LZMA),
    "behind.jpg": lambda n: b"\xff\xd8\xff" + b"PK\5\6" * (n // 4),
    "module.risum": lambda n: b"\x6f\0" + bytes(n),
}


def dumped(document: Document) -> bytes:
    """Return a document as a file; halves of pairs are written as escapes."""
    return json.dumps(document).encode()


def cost_s(data: bytes, name: str) -> float:
    """Return the processor time that reading a file takes, in seconds."""
    start = time.thread_time()
    with suppress(LorewellError):
        import_file(data, name=name, steps=Steps(UNBOUNDED))
    return time.thread_time() - start


def grows_too_fast(small: bytes, large: bytes, name: str) -> str | None:
    """Return figures if a file of four times the size takes over six times as long."""
    costs = [float("inf"), float("inf")]
    for _ in range(_ATTEMPTS):
        costs = [min(costs[0], cost_s(small, name)), min(costs[1], cost_s(large, name))]
        if costs[1] < MOST_TIMES * costs[0] + SLACK_S:
            return None
    return f"{name}: {costs[0] * 1000:.0f} ms, then {costs[1] * 1000:.0f} ms"


def hostile_documents(
    kind: FileKind, make: Make, n: int
) -> Iterator[tuple[str, Document, Document]]:
    """Yield by name documents of a kind with a value of size n, and with one of size 4n."""
    small, large = make(n), make(4 * n)
    names = fields_of(kind)
    yield (
        f"{kind} with all members",
        hostile_entry(kind, small, *names),
        hostile_entry(kind, large, *names),
    )
    yield f"{kind} with all texts", hostile_leaves(kind, small), hostile_leaves(kind, large)
