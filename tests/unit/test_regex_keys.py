"""Regex keys in the native policy (docs/rules/native.md §8.4, §8.11; §16 cases 45, 46, 108)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from lorewell import (
    BookCreate,
    Decision,
    Entry,
    SelectRequest,
    SelectResponse,
    compile_book,
    select,
)
from lorewell.engine.matching.keys import split_regex
from lorewell.engine.sillytavern.keys import classify
from lorewell.insight import diagnostics
from lorewell.jsregex import RegexGuard


def play(entries: list[Entry], query: str, **asked: object) -> SelectResponse:
    book = compile_book(BookCreate(name="Harbour", entries=tuple(entries)))
    return select(
        [book], SelectRequest.model_validate({"books": [book.ref], "query": query, **asked})
    )


def decide(key: str, query: str, **fields: object) -> Decision:
    entry = Entry.model_validate({"id": "e", "content": "C", "keys": [key], **fields})
    return play([entry], query).decisions[0]


@pytest.mark.parametrize(
    ("key", "query", "hit"),
    [
        ("/lamps?/i", "The LAMPS are lit", True),
        ("/lamps?/", "The LAMPS are lit", False),
        ("/etc/passwd", "cat /etc/passwd now", True),  # plain: an unescaped slash inside
        ("/etc/passwd", "etc", False),
        (r"/etc\/passwd/", "cat etc/passwd now", True),
        ("/[/]/", "a/b", False),  # in a class too a slash must be escaped: plain text
        ("/[/]/", "see /[/]/ here", True),
        ("//", "a // b", True),  # an empty pattern is plain
        ("/灯塔(?=大门)/u", "他走进灯塔大门", True),
        (r"/\p{Script=Cyrillic}+/u", "Привет", True),
        (r"/^\p{Emoji_Presentation}$/u", "🦊", True),
        ("/^.$/", "🦊", False),  # two code units without `u`, as in JavaScript
        ("/สวัสดี|ありがとう/", "ありがとうございます", True),
        ("/fox/x", "the /fox/x file", True),  # no flag of JavaScript's: plain
    ],
)
def test_regex_or_plain(key: str, query: str, *, hit: bool) -> None:
    decision = decide(key, query)
    assert (decision.selected, decision.reason) == (hit, "keyword" if hit else "not_triggered")


def test_regex_is_searched_in_the_text_as_it_stands() -> None:
    """No NFC, no folding: a decomposed accent is two characters for a regex, one for plain keys."""
    assert decide("/caf\u00e9/", "cafe\u0301").reason == "not_triggered"
    assert decide("caf\u00e9", "cafe\u0301").reason == "keyword"
    assert decide("/STRASSE/i", "straße").reason == "not_triggered"


def test_regex_ignores_the_switches_for_plain_keys() -> None:
    assert decide("/king/", "kingdom", match_whole_words=True).selected
    assert decide("/KING/i", "king", case_sensitive=True).selected


def test_span_counts_code_points_of_the_message() -> None:
    entry = Entry(id="e", content="C", keys=["/灯+/u"])
    history = [{"role": "user", "content": "🦊🦊 nothing"}, {"role": "user", "content": "🦊灯灯塔"}]
    facts = play([entry], "later", history=history).decisions[0].facts
    assert (facts.key, facts.message, facts.span) == ("/灯+/u", 1, (1, 3))


def test_a_hit_may_cross_from_one_message_to_the_next() -> None:
    entry = Entry(id="e", content="C", keys=[r"/end\nbegin/"])
    history = [{"role": "user", "content": "the end"}]
    facts = play([entry], "begin again", history=history).decisions[0].facts
    assert (facts.message, facts.span) == (0, (4, 13))


def test_entries_scan_as_deep_as_they_say() -> None:
    entries = [
        Entry(id="deep", content="D", keys=["/^first/"], scan_depth=3),
        Entry(id="shallow", content="S", keys=["/first/"], scan_depth=1),
        Entry(id="none", content="N", keys=["/(?:)/"], scan_depth=0),
    ]
    history = [{"role": "user", "content": "first"}, {"role": "user", "content": "second"}]
    answer = play(entries, "third", history=history)
    assert [decision.selected for decision in answer.decisions] == [True, False, False]


@pytest.mark.parametrize("key", ["/lamp(/", "/a/gg", r"/\p{Nothing}/u", "/(?i:a)/"])
def test_broken_regex_is_named(key: str) -> None:
    decision = decide(key, "lamp a")
    assert (decision.reason, decision.detail) == ("regex_invalid", key)


def test_broken_regex_does_not_keep_another_key_from_firing() -> None:
    assert play([Entry(content="C", keys=["/(/", "lamp"])], "lamp").decisions[0].reason == "keyword"
    assert play([Entry(content="C", keys=["lamp", "/(/"])], "lamp").decisions[0].reason == "keyword"
    constant = Entry(content="C", keys=["/(/"], constant=True)
    assert play([constant], "lamp").decisions[0].reason == "constant"


def test_invalid_is_remembered_before_timeout() -> None:
    keys = ["/(a+)+$/", "/(/"]
    decision = play([Entry(content="C", keys=keys)], "a" * 40 + "!").decisions[0]
    assert (decision.reason, decision.detail) == ("regex_invalid", "/(/")


@pytest.mark.parametrize(
    ("logic", "secondary", "reason"),
    [
        ("and_any", ["/oil/"], "keyword"),
        ("and_all", ["/oil/", "/wick/"], "not_triggered"),
        ("not_any", ["/tar/"], "keyword"),
        ("not_any", ["tar", "/o.l/"], "not_triggered"),
        ("not_all", ["/oil/", "/wick/"], "keyword"),
        ("and_any", ["oil", "/(/"], "regex_invalid"),  # any broken one makes the hit false
        ("not_any", ["/(/"], "regex_invalid"),
        ("not_any", ["/(a+)+$/"], "regex_timeout"),
    ],
)
def test_secondary_regexes(logic: str, secondary: list[str], reason: str) -> None:
    fields = {"keys": ["/lamp/"], "secondary_keys": secondary, "selective": True, "logic": logic}
    entry = Entry.model_validate({"content": "C", **fields})
    assert play([entry], "lamp oil " + "a" * 40 + "!").decisions[0].reason == reason


def test_secondary_regexes_wait_for_a_primary_hit() -> None:
    entry = Entry(content="C", keys=["lamp"], secondary_keys=["/(/"], selective=True)
    assert play([entry], "nothing").decisions[0].reason == "not_triggered"
    assert play([entry], "lamp").decisions[0].reason == "regex_invalid"


def test_regex_is_woken_by_another_entry() -> None:
    waker = Entry(
        id="waker", content="The whale sang 鲸歌.", keys=["/sea/"], prevent_recursion=False
    )
    woken = Entry(id="woken", content="W", keys=["/鲸./"], exclude_recursion=False)
    answer = play([woken, waker], "the sea")
    decision = answer.decisions[0]
    assert (decision.reason, decision.round) == ("recursion", 1)
    assert decision.facts.woken_by == answer.decisions[1].id
    assert decision.facts.span == (15, 17)


def test_two_hundred_catastrophes_and_the_harmless_keys_before_them() -> None:
    """Each says so, what was tried before is right, and the call ends soon."""
    catastrophes = [
        Entry(id=f"bad-{n:03}", content="B", keys=[f"/(a+)+{'b' * n}$/"]) for n in range(200)
    ]
    harmless = [Entry(id=f"good-{n}", content="G", keys=[f"/a{{{n + 1}}}!/"]) for n in range(5)]
    text = "a" * 15_999 + "!"
    begin = time.perf_counter()
    answer = play([*harmless, *catastrophes], "go", history=[{"role": "user", "content": text}])
    elapsed = time.perf_counter() - begin
    reasons = {decision.entry_id: decision.reason for decision in answer.decisions}
    assert {reasons[f"bad-{n:03}"] for n in range(200)} == {"regex_timeout"}
    assert {reasons[f"good-{n}"] for n in range(5)} == {"keyword"}
    assert elapsed < 10  # ten times the limit: machines are busy at times


def test_a_time_out_does_not_hinder_plain_keys() -> None:
    """A runaway pattern beside a plain key."""
    entries = [
        Entry(id="A", content="A", keys=["/(a+)+$/"]),
        Entry(id="B", content="B", keys=["fox"]),
    ]
    answer = play(entries, "a" * 40 + "! fox")
    assert [decision.reason for decision in answer.decisions] == ["regex_timeout", "keyword"]


def test_lint_names_what_can_not_be_compiled() -> None:
    entries = (
        Entry(id="b", content="B", keys=["/ok/", "/(/"], secondary_keys=["/[/"], selective=True),
        Entry(id="a", content="A", keys=["", "/lamp/gg"]),
        Entry(id="c", content="C", keys=["plain"]),
    )
    found = diagnostics(compile_book(BookCreate(name="Harbour", entries=entries)))
    assert [(each.entry_id, each.code) for each in found] == [
        ("b", "regex_invalid"),
        ("b", "regex_invalid"),
        ("a", "blank_key"),
        ("a", "regex_invalid"),
    ]
    assert "/[/" in found[1].message


@pytest.mark.parametrize("tell", [split_regex, classify])
@pytest.mark.parametrize("piece", ["/", "\\", "\\/", "/g", "g", "[", "\n", "a/", "//\\"])
def test_key_is_told_from_a_plain_one_in_one_pass(
    tell: Callable[[str], object], piece: str
) -> None:
    def least_seconds(chars: int) -> float:
        inner = (piece * chars)[:chars]
        texts = [f"/{inner}{end}" for end in ("", "/", "/i", "!")]
        times = []
        for _ in range(5):
            began = time.process_time()
            for text in texts:
                tell(text)
            times.append(time.process_time() - began)
        return min(times)

    assert least_seconds(80_000) < 10 * least_seconds(20_000) + 0.001


def test_book_without_regexes_starts_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("no regex key, no search")

    monkeypatch.setattr(RegexGuard, "search", refuse)
    entries = [Entry(content="C", keys=["lamp"])]
    assert play(entries, "lamp").decisions[0].selected
    assert diagnostics(compile_book(BookCreate(name="Harbour", entries=tuple(entries)))) == ()
