"""Bounds of reading foreign files: steps, values, chunks, keys, and what a report says."""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from lorewell import import_file, load_book, load_world
from lorewell.engine.steps import Steps
from lorewell.errors import (
    FileTooLargeError,
    ImportInvalidError,
    OverloadedError,
    TooExpensiveError,
    ValidationFailedError,
)
from lorewell.formats import chat_file, import_worldbook, notes as notes_module, open_book
from lorewell.formats.card_texts import load_card_texts
from lorewell.formats.containers.inflating import Inflater, inflate
from lorewell.formats.export import put_into_card
from lorewell.formats.files import load_json
from lorewell.formats.inspection import inspect_bytes
from lorewell.formats.json_text import MAX_ROW, MAX_VALUES
from lorewell.formats.notes import MAX_IMPORT_STEPS, MAX_NOTICES_A_CODE, ImportNotes
from pictures import SIGNATURE, charx, chunk, png, raw_text, text, webp, ztxt
from support import Document

CARD = {"spec": "chara_card_v2", "data": {"name": "a", "character_book": {"entries": []}}}
ENTRY = {"uid": 7, "key": ["lamp"], "content": "{{user}} sees <b class='x'>a lamp</b>."}
WORLD = {"entries": {str(number): ENTRY for number in range(40)}}
FILES = {
    "a.json": json.dumps(WORLD).encode(),
    "a.yaml": b"entries:\n" + b"- content: a lamp\n" * 600,
    "a.png": png(*[chunk(b"prVt", b"")] * 2_500, text(CARD)),
    "a.webp": webp({**CARD, "x": "a" * 300_000}),
    "a.charx": charx({**CARD, "x": "a" * 300_000}),
    "comments.json": b"/**/ // a\n" * 200_000 + json.dumps(CARD).encode(),
}


def dumped(document: Document) -> bytes:
    return json.dumps(document).encode()


class Clock:
    """A watch whose time is over after a number of calls."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def __call__(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise OverloadedError("Time is over.")


@pytest.mark.parametrize("name", FILES)
def test_reading_counts_the_same_steps_each_time(name: str) -> None:
    counts = []
    for _ in range(2):
        steps = Steps(MAX_IMPORT_STEPS)
        import_file(FILES[name], name=name, steps=steps)
        counts.append(steps.by)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", FILES)
def test_file_that_needs_more_steps_is_refused_with_figures(name: str) -> None:
    steps = Steps(MAX_IMPORT_STEPS)
    import_file(FILES[name], name=name, steps=steps)
    for limit in (0, steps.spent // 2, steps.spent - 1):
        with pytest.raises(TooExpensiveError, match="steps of work") as caught:
            import_file(FILES[name], name=name, steps=Steps(limit))
        assert caught.value.details["max_steps"] == limit
        assert caught.value.details["file"] == name
        assert sum(caught.value.details["by"].values()) > limit


@pytest.mark.parametrize("name", FILES)
def test_reading_ends_when_its_time_is_over(name: str) -> None:
    with pytest.raises(OverloadedError):
        import_file(FILES[name], name=name, steps=Steps(MAX_IMPORT_STEPS, watch=Clock(0)))


def test_every_door_shares_the_bounds(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(FILES["a.json"])
    no_steps = {"steps": Steps(0)}
    for door in (
        lambda: load_book(path, steps=Steps(0)),
        lambda: open_book(path, steps=Steps(0)),
        lambda: load_world(path, steps=Steps(0)),
        lambda: import_worldbook(b"{}", name="a", new_id=str, **no_steps),
    ):
        with pytest.raises(TooExpensiveError):
            door()


def test_broken_book_of_ours_needs_steps_as_well(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"name": "Harbour", "entries": [],}')
    steps = Steps(MAX_IMPORT_STEPS)
    with pytest.raises(ImportInvalidError):
        open_book(path, steps=steps)
    with pytest.raises(TooExpensiveError):
        open_book(path, steps=Steps(steps.spent - 1))


def test_picture_whose_newer_card_costs_too_much_is_refused() -> None:
    picture = png(text({"a": ["x"] * 3_000}, "ccv3"), text(CARD))
    with pytest.raises(TooExpensiveError):
        import_file(picture, name="a.png", steps=Steps(2_000))


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (MAX_VALUES, f"more than {MAX_VALUES:,} values and names"),
        (MAX_ROW, f"more than {MAX_ROW:,} numbers or texts in a row"),
    ],
)
def test_json_of_too_many_values_is_refused_unread(values: int, what: str, tmp_path: Path) -> None:
    item = "[]," if values == MAX_VALUES else "1,"
    data = f'{{"entries": {{}}, "x": [{item * values}1]}}'.encode()
    for file in (data, png(raw_text(data))):
        with pytest.raises(ImportInvalidError, match=what):
            import_file(file, name="a")
    path = tmp_path / "a.json"
    path.write_bytes(data)
    for door in (open_book, load_json):
        with pytest.raises(ImportInvalidError, match=what):
            door(path)
    seen = inspect_bytes(data, name="a.json")
    assert (seen.container, seen.kind) == ("json", None)


def test_as_many_values_as_may_be_are_read() -> None:
    row = ",".join(["1"] * (MAX_ROW - 2))
    found = import_file(f'{{"entries": {{}}, "x": [{row}]}}'.encode(), name="a")
    assert len(found.book.metadata["raw"]["x"]) == MAX_ROW - 2


def test_text_that_is_no_json_is_not_counted() -> None:
    with pytest.raises(ImportInvalidError, match="not an image, zip archive"):
        import_file(b"a, " * MAX_ROW * 2, name="a.txt")


def test_too_many_chunks_are_refused() -> None:
    many = png(chunk(b"prVt", b"") * 100_000, text(CARD))
    with pytest.raises(ImportInvalidError, match=r"more than 100,000 chunks \(the limit\)"):
        import_file(many, name="a.png")
    early = png(text(CARD), chunk(b"prVt", b"") * 100_000)
    assert [each.code for each in import_file(early, name="a").report.warnings] == ["png_damaged"]
    with pytest.raises(ImportInvalidError, match=r"more than 100,000 chunks \(the limit\)"):
        import_file(b"RIFF0000WEBP" + b"abcd\0\0\0\0" * 100_001, name="a.webp")
    assert inspect_bytes(many, name="a.png").part_count == 0


def test_lists_of_names_are_read_up_to_a_bound() -> None:
    entry = {"key": ",".join(map(str, range(30_000))), "content": "x"}
    with pytest.raises(ValidationFailedError, match="at most 200, holds 10000"):
        import_file(dumped({"entries": [entry]}), name="a")
    kobold = [{"key": entry["key"], "content": "x"}]
    found = import_file(dumped(kobold), name="a")
    assert len(found.book.entries[0].keys) == 200
    assert "10000 or more keys" in found.report.warnings[0].message
    replica = {
        "entries": [{"activationType": "x", "group": entry["key"], "requires": [1] * 20_000}]
    }
    assert import_file(dumped(replica), name="a").report.format == "replica"


def test_decorators_are_read_up_to_a_bound() -> None:
    block = "@@depth 1\n"
    for content in (block * 1_001 + "x", block + "x" * 200_000):
        document = {"spec": "lorebook_v3", "data": {"entries": [{"keys": [], "content": content}]}}
        if len(content) > 200_000:
            with pytest.raises(ValidationFailedError, match="at most 200000"):
                import_file(dumped(document), name="a")
        else:
            entry = import_file(dumped(document), name="a").book.entries[0]
            assert (entry.content, entry.runtime_requirements) == (content, ("decorators",))


def test_unread_members_are_named_up_to_a_bound_and_counted() -> None:
    found = import_file(dumped({"entries": [{f"k{i}": 1 for i in range(12_000)}]}), name="a")
    assert len(found.report.losses) == MAX_NOTICES_A_CODE
    assert found.report.warnings[-1].message == "losses: 7000 more of the kind unsupported"


def test_signs_of_an_entry_are_bounded() -> None:
    found = import_file(dumped({"entries": [{"x": ["<%"] * 6_000}]}), name="a")
    assert len(found.report.quarantine) == 5_000


def test_costly_keys_of_an_entry_are_bounded() -> None:
    keys = [f"/(a+)+{number}/" for number in range(150)]
    entry = {"key": [*keys, "/" + "a" * 400 + "/", "/(a+)+"], "content": "x"}
    found = import_file(dumped({"entries": [entry]}), name="a")
    assert [each.what for each in found.report.quarantine] == ["expensive_regex"] * 100
    long = "/" + "[" * 20_000
    with pytest.raises(ValidationFailedError, match="at most 500"):
        import_file(dumped({"entries": [{"key": [long]}]}), name="a")


def test_key_that_no_text_holds_is_not_shown() -> None:
    found = import_file(dumped({"entries": [{"key": ["/(a+)+/ "], "content": "x"}]}), name="a")
    assert found.report.quarantine == ()
    found = import_file(dumped([{"key": "/(a+)+/ , b", "content": "x"}]), name="a")
    assert [each.what for each in found.report.quarantine] == ["expensive_regex"]


def test_long_names_make_no_long_report() -> None:
    name = "k" * 1_000_000
    entry = {f"m{number}": 1 for number in range(3_000)}
    found = import_file(dumped({"entries": {name: {**entry, "content": "<%"}}}), name="a")
    assert {each.pointer for each in found.report.losses} == {"/entries"}
    assert {each.pointer for each in found.report.quarantine} == {"/entries"}
    assert len(found.report.model_dump_json()) < 1_000_000
    broken = {"entries": {name: {"key": ["a" * 501] * 150}}}
    with pytest.raises(ValidationFailedError) as caught:
        import_file(dumped(broken), name="a")
    assert {fault.pointer for fault in caught.value.faults[:-1]} == {"/entries"}
    assert caught.value.fault_count == 150
    deep: Document = {}
    for _ in range(6):
        deep = {"n" * 150: deep, "content": "<%"}
    found = import_file(dumped({"entries": [{"x": deep}]}), name="a")
    assert max(len(each.pointer) for each in found.report.quarantine) < 520


def test_report_is_bounded_in_its_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "MAX_REPORT_CHARS", 1_000)
    found = import_file(dumped({"entries": [{"x": ["<%", "http://a.bc"] * 300}]}), name="a")
    report = found.report
    assert sum(len(each.pointer) + len(each.text) for each in report.quarantine) <= 1_000
    more = {each.message.split(":")[0] for each in report.warnings if "more" in each.code}
    assert more == {"quarantine"}


def test_full_notes_are_only_counted() -> None:
    numbers = ["1e999"] * 6_000
    data = f'{{"entries": {{}}, "x": [{",".join(numbers)}]}}'.encode()
    report = import_file(data, name="a").report
    codes = [each.code for each in report.warnings]
    assert codes.count("number_out_of_range") == MAX_NOTICES_A_CODE + 1
    assert report.warnings[-1].message == "and 1000 more"


@pytest.mark.parametrize("text", ["", "a", "b" * 100, "a" * 200_000, '\\"' * 90_000])
def test_long_texts_and_comments_are_passed_over_in_pieces(text: str) -> None:
    body = json.dumps({**WORLD, "x": text, "y": [1, 2]})
    lenient = "/* " + "*" * 200_000 + " */" + "// a\n" * 2_000 + body[:-2] + ", ], /* b */ }"
    document = import_file(lenient.encode(), name="a").book.metadata["raw"]
    assert document == {"x": text, "y": [1, 2]}


@pytest.mark.parametrize(
    "broken", ['{"a": "', '{"a": "b\\', '{"a": ' + '"\\' * 300, "{/* a", "{//", "{/", "{,"]
)
def test_broken_json_is_refused_in_words(broken: str) -> None:
    for data in (broken, broken + " " * 70_000, "/* */" + broken):
        with pytest.raises(ImportInvalidError, match="Invalid JSON"):
            import_file(data.encode(), name="a")


def test_unfit_text_is_mended_in_pieces() -> None:
    text = "a" * 70_000 + "\\u0000" + "b" * 70_000 + "\\ud800\\u4f60"
    data = f'{{"entries": {{}}, "x": "{text}", "y": "\\u4f60"}}'.encode()
    found = import_file(data, name="a")
    raw = found.book.metadata["raw"]
    assert raw == {"x": "a" * 70_000 + "\ufffd" + "b" * 70_000 + "\ufffd你", "y": "你"}
    assert "2 of U+0000" in found.report.warnings[0].message
    same = {"entries": {}, "x": "你" * 70_000}
    assert import_file(json.dumps(same).encode(), name="a").report.warnings == ()


PIECE = 65_536


@pytest.mark.parametrize("gap", [0, PIECE - 30, PIECE - 3, PIECE - 2, PIECE - 1, PIECE, PIECE * 2])
@pytest.mark.parametrize(
    ("sign", "word"),
    [
        ("<%", "ejs"),
        ("<updatevariable", "mvu"),
        ("<a title='<' onclick =x", "script"),
        ("<a " + "b" * PIECE + " onclick=x", "script"),
        ("<a " + "'b'" * 30_000 + "/onclick=x", "script"),
        ("{{random::a}}", "macro"),
        ("{{" + "a" * PIECE + "}}", "macro"),
        ("{{random::{{user}}}}", "macro"),
    ],
)
def test_signs_are_found_wherever_they_stand_in_a_long_text(sign: str, word: str, gap: int) -> None:
    text = "a " * (gap // 2) + "a" * (gap % 2) + sign + " b" * PIECE
    found = import_file(dumped({"entries": [{"x": text}]}), name="a")
    assert found.book.entries[0].runtime_requirements == (word,)
    (shown, *_) = found.report.quarantine
    assert shown.span[0] >= gap or word == "script"
    harmless = text.replace(sign, "{{user}}{{ CHAR }} < 1 {{{ on x=")
    assert import_file(dumped({"entries": [{"x": harmless}]}), name="a").report.quarantine == ()


def test_signs_of_a_long_text_do_not_overlap() -> None:
    text = "<%>" + "a" * PIECE
    found = import_file(dumped({"entries": [{"x": text, "y": text, "z": "<%>" * 40}]}), name="a")
    spans = [each.span for each in found.report.quarantine]
    assert spans == [(0, 2), (0, 2), *((3 * at, 3 * at + 2) for at in range(40))]


def test_tag_without_a_handler_is_harmless_however_long() -> None:
    text = "<a " + "b=c onx " * PIECE + "> on=" + "<a>" * PIECE
    found = import_file(dumped({"entries": [{"x": text}]}), name="a")
    assert found.book.entries[0].runtime_requirements == ()


def test_many_signs_in_a_long_text_are_cut() -> None:
    for piece in ("<%", "<a onb=", "{{a}}"):
        found = import_file(dumped({"entries": [{"x": piece * PIECE}]}), name="a")
        assert len(found.report.quarantine) == 100


@pytest.mark.parametrize("pack", [zlib.compress, bz2.compress, lzma.compress])
def test_inflating_stops_at_the_limit(pack: Callable[[bytes], bytes]) -> None:
    makers: dict[str, Callable[[], Inflater]] = {
        "zlib": zlib.decompressobj,
        "bz2": bz2.BZ2Decompressor,
        "lzma": lzma.LZMADecompressor,
    }
    make = makers[pack.__module__.lstrip("_")]
    content = bytes(range(256)) * 4_000
    packed = pack(content)
    for limit in (0, 1, 999, 300_000, len(content) - 1):
        found = inflate(make(), packed, limit_bytes=limit, steps=Steps())
        assert found == content[: limit + 1]
    whole, cut = make(), make()
    assert inflate(whole, packed + b"x", limit_bytes=len(content), steps=Steps()) == content
    assert whole.eof
    assert content.startswith(inflate(cut, packed[:-20], limit_bytes=len(content), steps=Steps()))
    assert not cut.eof
    with pytest.raises(TooExpensiveError):
        inflate(make(), packed, limit_bytes=len(content), steps=Steps(100))


def test_deflated_card_is_counted() -> None:
    data = SIGNATURE + ztxt(b"{" + b" " * 300_000, "chara") + chunk(b"IEND", b"")
    with pytest.raises(TooExpensiveError):
        import_file(data, name="a.png", steps=Steps(5_000))


def test_card_that_takes_a_book_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    book = import_file(dumped(WORLD), name="a").book
    monkeypatch.setattr(notes_module, "MAX_IMPORT_STEPS", 10)
    for card in (dumped(CARD), png(text(CARD))):
        with pytest.raises(TooExpensiveError):
            put_into_card(book, card)


def test_card_of_a_scan_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(dumped(CARD))
    assert load_card_texts(path).name == "a"
    monkeypatch.setattr(notes_module, "MAX_IMPORT_STEPS", 10)
    with pytest.raises(TooExpensiveError):
        load_card_texts(path)


def test_inspection_of_costly_blanks_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"/**/ " * 10_000
    assert inspect_bytes(data, name="a").container == "empty"
    monkeypatch.setattr("lorewell.formats.inspection.MAX_IMPORT_STEPS", 10)
    assert inspect_bytes(data, name="a").container == "unknown"


def test_map_of_too_many_entries_is_refused_before_it_is_translated() -> None:
    entries = {str(number): {"activationType": "x"} for number in range(5_001)}
    for given in (entries, list(entries.values())):
        with pytest.raises(ValidationFailedError, match="at most 5000, holds 5001"):
            import_file(dumped({"entries": given}), name="a")
        with pytest.raises(ValidationFailedError, match="at most 5000, holds 5001"):
            import_worldbook(dumped({"entries": given}), name="a", new_id=str)


def test_triggers_that_are_too_large_for_the_block_are_seen_early() -> None:
    config = {"triggers": {"keyword": [True, {"key": ["a" * 100] * 1_000}]}}
    found = import_file(dumped({"entries": [{"trigger_config": config}]}), name="a")
    assert found.book.entries[0].replica is None
    nested: Document = {}
    for _ in range(40):
        nested = {"a": [nested, "b" * 2_000]}
    entry = {"trigger_config": {"triggers": {}, "x": nested}}
    assert import_file(dumped({"entries": [entry]}), name="a").book.entries[0].replica is None


def test_categories_are_counted() -> None:
    book = {"lorebookVersion": 5, "entries": [], "categories": [1, {"id": 2}, {"id": "a"}] * 1_000}
    with pytest.raises(TooExpensiveError):
        import_file(dumped(book), name="a", steps=Steps(9_000))


def test_chat_of_too_many_messages_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text('{"mes": "a"}\n' * 4)
    monkeypatch.setattr(chat_file, "MAX_CHAT_MESSAGES", 3)
    with pytest.raises(FileTooLargeError, match=r"chat\.jsonl holds more than 3 messages"):
        chat_file.load_chat(path)


def test_ids_that_end_alike_are_numbered_quickly() -> None:
    entries = [{"uid": "A" * 148 + str(number % 40)} for number in range(80)]
    found = import_file(dumped({"entries": entries}), name="a")
    assert len({entry.id for entry in found.book.entries}) == 80


def test_notes_begin_with_a_budget() -> None:
    assert ImportNotes().steps.limit == MAX_IMPORT_STEPS
