"""Real lorebooks and cards of many programs: each is read as counted by hand, or refused in words.

The files are other people's and are not part of this repository. They are looked for in the
folder that LOREWELL_CORPUS names, else in `shared/corpus` beside the repository: a folder for
each format with a `manifest.json` that says what is in its files.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from lorewell import BookCreate, ImportedBook, compile_book, import_file
from lorewell.errors import LorewellError
from lorewell.formats import open_book
from lorewell.formats.detect import FileKind
from lorewell.formats.export import EXPORTS, export_book
from lorewell.formats.registry import READERS
from lorewell.insight import diagnostics
from lorewell.model.parse import parse_json, parse_model
from program import Lorewell
from support import ask, chosen, reasons

VARIABLE = "LOREWELL_CORPUS"
ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get(VARIABLE, ROOT.parent / "shared" / "corpus"))
READ = {*(kind.value for kind in READERS), "card_png", "card_webp", "charx", "native"}
DERIVED, BROKEN = "derived", "broken"
REFUSED = {"import_invalid", "validation_error", "unsupported_media_type"}
# How a manifest says that a file may be refused, or read, though its kind is another.
OR_REFUSED = r"\bor 422|\bor a limit error|^limit of "
OR_READ = r"\bor (?:repair|decode)|\baccept "

Item = dict[str, Any]


def items() -> list[tuple[str, Item]]:
    """Return every file of the corpus: its folder, and what the manifest says of it."""
    return [
        (manifest.parent.name, item)
        for manifest in sorted(CORPUS.glob("*/manifest.json"))
        for item in json.loads(manifest.read_text(encoding="utf-8"))["files"]
    ]


def params(*folders: str, others: bool = False) -> list[Any]:
    found = [
        pytest.param(CORPUS / folder / item["file"], item, id=f"{folder}/{item['file']}")
        for folder, item in items()
        if (folder in folders) is not others
    ]
    absent = pytest.mark.skip(reason=f"there is no corpus in {CORPUS}")
    return found or [pytest.param(CORPUS, {}, marks=[] if VARIABLE in os.environ else [absent])]


def attempt(path: Path) -> ImportedBook | LorewellError:
    """Return the book in a file, or the error of ours; any other error fails the test."""
    try:
        return import_file(path.read_bytes(), name=path.name)
    except LorewellError as error:
        return error


def is_unread(error: LorewellError) -> bool:
    """Return whether the error says that this kind of file is known and not read."""
    return error.code == "import_invalid" and ("are not supported" in str(error))


def test_corpus_is_there_where_it_is_named() -> None:
    assert VARIABLE not in os.environ or items()


@pytest.mark.parametrize(("path", "item"), params(DERIVED, BROKEN, others=True))
def test_real_file_holds_what_was_counted(path: Path, item: Item) -> None:
    data = path.read_bytes()
    refused = item["entries"] is None or "invalid-missing-spec" in path.name
    if item["format"] not in READ or refused:
        with pytest.raises(LorewellError) as caught:
            import_file(data, name=path.name)
        assert caught.value.code == "import_invalid"
        assert is_unread(caught.value) or item["format"] in READ or item["entries"] is None
        return
    report = import_file(data, name=path.name).report
    assert report.format == item["format"]
    assert (report.entry_count, report.enabled_count) == (item["entries"], item["enabled"])
    assert report.source_file.sha256 == item["sha256"]
    assert open_book(path).report == report, "a foreign file is no book of our own"


@pytest.mark.parametrize(("path", "item"), params(DERIVED))
def test_odd_container_gives_what_it_holds(path: Path, item: Item) -> None:
    found = attempt(path)
    if isinstance(found, LorewellError):
        assert is_unread(found)
        return
    report = found.report
    assert report.entry_count == item["entries"]
    codes = [warning.code for warning in report.warnings if warning.code != "no_book"]
    words = item["expect"]
    if "a warning each" in words or "report each" in words:
        assert len(codes) >= 3
    elif "warn" in words or "may accept" in words:
        assert codes


@pytest.mark.parametrize(("path", "item"), params(BROKEN))
def test_broken_file_gives_the_error_or_the_warning_that_is_asked_for(
    path: Path, item: Item
) -> None:
    words, kind = item["expect"], item["kind"]
    found = attempt(path)
    if isinstance(found, LorewellError):
        assert kind == "reject" or re.search(OR_REFUSED, words)
        assert found.code in (REFUSED | {"file_too_large"} if "413" in words else REFUSED)
        assert str(found).startswith(f"{path.name} can't be imported")
        assert found.details["file"] == path.name
        assert shares_a_word(str(found), re.findall(r'"([^"]+)"', words))
        assert "byte offset" not in words or re.search(r"byte \d+", str(found))
        return
    assert kind in {"partial", "valid"} or re.search(OR_READ, words)
    report, warnings = found.report, found.report.warnings
    if kind == "reject" or re.search(r"\bwarn|repair list", words):
        assert warnings
    if re.search(r"\b(?:per bad one|each)\b", words):
        assert len(warnings) > 1
        assert all(re.match(r"/\S+: ", warning.message) for warning in warnings)
    counted = re.search(r"\b(\d+|one) (?:good )?(?:\w+ )?entr", words) or re.search(
        r"\ball (\d+)", words
    )
    if counted:
        assert report.entry_count == int(counted[1].replace("one", "1"))
    if "newest known version" in words:
        assert report.format == "card_v3_json"
    if "U+FFFD" in words:
        assert "\ufffd" in found.book.model_dump_json()
    assert_sound(found.book, words)


def shares_a_word(sentence: str, quoted: list[str]) -> bool:
    """Return whether a sentence is about what is quoted, if anything is: the texts may differ."""
    wanted = re.findall(r"[a-z]{4}|\d+", " ".join(quoted).lower())
    return not wanted or any(word in sentence.lower() for word in wanted)


def assert_sound(book: BookCreate, words: str) -> None:
    """Show that a book is typed, can be encoded, and is written as JSON without NaN."""
    assert parse_model(BookCreate, parse_json(book.model_dump_json().encode())) == book
    for target in EXPORTS:
        written = export_book(book, target).document
        json.dumps(written, allow_nan=False, ensure_ascii=False).encode()
        if target == "st_world" and "numeric keys" in words:
            assert all(key.isdecimal() for key in written["entries"])


@pytest.mark.parametrize(("path", "_item"), params(BROKEN))
def test_command_tells_of_a_broken_file_in_words(
    path: Path,
    _item: Item,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    done = Lorewell(tmp_path, monkeypatch, capfd)("import", path)
    assert "Traceback" not in done.out + done.err
    if isinstance(attempt(path), LorewellError):
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"lorewell: {path.name} can't be imported")
    else:
        assert (done.code, done.err) == (0, "")


def test_broken_keys_are_named_and_never_match() -> None:
    book = compile_book(broken("invalid-regex.json"))
    texts = [note.message.partition(" is not a valid regex")[0] for note in diagnostics(book)]
    assert texts == ["/([a-z/i", "/(?<name/", r"/\p{Han}+/u", "/x/gg"], "as JavaScript has it"
    assert reasons(ask([book], "/([a-z/i (?<name 灯")) == {"0": "regex_invalid"}
    assert reasons(ask([book], "It is OK.")) == {"0": "keyword"}


def test_catastrophic_keys_are_given_up_and_told() -> None:
    book = compile_book(broken("catastrophic-regex.json"))
    start = process_time()
    assert reasons(ask([book], "a" * 40 + "! " + "x" * 40)) == {"0": "regex_timeout"}
    assert process_time() - start < 10


def test_ring_of_entries_ends() -> None:
    book = compile_book(broken("recursion-loop.json"))
    response = ask([book], "灯", max_recursion_rounds=5, token_budget=32000)
    assert chosen(response) == [str(number) for number in range(6)]
    assert len(response.decisions) == 50


def broken(name: str) -> BookCreate:
    path = CORPUS / BROKEN / name
    if not path.exists():
        pytest.skip("it is not in this corpus")
    return import_file(path.read_bytes(), name=name).book


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("png-truncated.png", "The PNG is truncated (chunk IDAT declares"),
        ("png-no-card.png", "This PNG has no card data (expected a chara, ccv3 or naidata chunk)."),
        ("png-bad-base64.png", "The chara chunk is not valid base64 (at offset 0)."),
        ("png-base64-not-json.png", "line 1, column 1"),
        ("png-length-lies.png", "chunk tEXt declares 2147483632 bytes"),
        ("png-ztxt-bomb.png", "larger than the limit"),
        ("png-chara-empty.png", "The chara chunk is empty."),
        ("charx-zip-bomb.charx", "card.json is larger than the limit of 16 MiB"),
        ("charx-zip-bomb-lying-size.charx", "card.json is larger than the limit of 16 MiB"),
        ("charx-no-card.charx", "neither a charx (card.json is missing at its root) nor a byaf"),
        ("charx-truncated.charx", "The zip archive is truncated or damaged"),
        ("charx-encrypted.charx", "encrypted archives are not supported"),
        ("charx-10mb-key.charx", "/entries/0/keys/0: must hold at most 500, holds 10000000"),
        ("charx-60000-entries-lzma.charx", "/entries: must hold at most 5000, holds 60000"),
        ("risum-bad-magic.risum", "This is not an image, zip archive, RisuAI module or JSON"),
        ("risum-length-lies.risum", "is truncated"),
        ("webp-exif-garbage.webp", "no card in the EXIF data"),
        ("jpeg-no-card.jpg", "This JPEG has no card data"),
        ("html-page.json", "This is a web page (HTML)"),
        ("empty.json", "The file is empty."),
        ("json-number.json", "top level is a number"),
        ("json-unknown-object.json", "unknown lorebook or card format (expected"),
        ("deep-arrays.json", "nests deeper than 100"),
        ("deep-extensions.json", "nests deeper than 100"),
        ("entries-wrong-type.json", "must be an object or a list, is a number"),
        ("nan-infinity.json", "NaN is not a JSON number"),
        ("int-5000-digits.json", "too large"),
        ("invalid-utf8.json", "byte 36"),
        ("card-data-null.json", "data is missing"),
    ],
)
def test_refusal_says_what_is_wrong(name: str, says: str) -> None:
    path = CORPUS / BROKEN / name
    if not path.exists():
        pytest.skip("it is not in this corpus")
    with pytest.raises(LorewellError) as caught:
        import_file(path.read_bytes(), name=name)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "entries", "code"),
    [
        (f"{DERIVED}/arleigh.charx", 34, None),
        (f"{DERIVED}/arleigh-stored.charx", 34, None),
        (f"{DERIVED}/arleigh-jpeg.jpeg", 34, None),
        (f"{BROKEN}/charx-many-members.charx", 0, None),
        (f"{BROKEN}/charx-path-traversal.charx", 0, "charx_unsafe_names"),
    ],
)
def test_archive_gives_the_card_in_it(name: str, entries: int, code: str | None) -> None:
    path = CORPUS / name
    if not path.exists():
        pytest.skip("it is not in this corpus")
    report = import_file(path.read_bytes(), name=path.name).report
    assert (report.format, report.entry_count) == ("charx", entries)
    assert [warning.code for warning in report.warnings] == ([] if code is None else [code])


def test_module_is_refused_with_advice() -> None:
    path = CORPUS / DERIVED / "airisu.risum"
    if not path.exists():
        pytest.skip("it is not in this corpus")
    with pytest.raises(LorewellError, match="export the lorebook as JSON in RisuAI"):
        import_file(path.read_bytes(), name=path.name)


def test_every_kind_of_the_corpus_has_a_word() -> None:
    words = {kind.value for kind in FileKind} | {"card_png", "card_webp", "charx"}
    assert {item["format"] for _, item in items() if "format" in item} <= words
