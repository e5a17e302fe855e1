"""Regex keys: what they cost and what guards them. Answers: tests/golden."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from lorewell.jsregex import (
    MAX_SPENT_MS,
    MAX_TIMEOUTS,
    Look,
    LookResult,
    Parts,
    Pattern,
    PatternOutcome,
    RegexGuard,
    engine as engine_module,
    job as job_module,
    switch_engine,
    walk as walk_module,
)
from lorewell.jsregex.engine import V8Engine
from lorewell.jsregex.job import Job
from lorewell.jsregex.spans import Ruler
from lorewell.jsregex.walk import Walk

HIT_FIRST = PatternOutcome("hit", (0, 1))
MISS, INVALID, TIMEOUT = (
    PatternOutcome("miss"),
    PatternOutcome("invalid"),
    PatternOutcome("timeout"),
)
ONE: Parts = ((0, 1),)
RUNAWAY = Pattern("(a+)+$", "")
QUADRATIC = Pattern(r"\s+$", "")
MESSAGE_CHARS = 16_000
HISTORY_CHARS = 1_600_000
LINE = "The king walked to the old lighthouse; he was 老人 of 旧灯塔, with a dog, foo and axy.\n"
HARMLESS = (
    Pattern("foo.*bar", "i"),
    Pattern(r"\bking\b", ""),
    Pattern(r"\bqueen\b", ""),
    Pattern("(?<=x)y", ""),
    Pattern("(?<=q)y", ""),
    Pattern(r"[^\n]*dragon", ""),
    Pattern(r"\p{Script=Han}+灯塔", "u"),
    Pattern(r"\p{Script=Han}+塔灯", "u"),
    Pattern("aragorn|boromir|frodo|samwise", "i"),
    Pattern(r"(\w+) \1", ""),
)


@pytest.fixture(autouse=True)
def _engine_on() -> Iterator[None]:
    switch_engine(on=True)
    yield
    switch_engine(on=None)


def look(*primary: Pattern, parts: Parts = ONE) -> Look:
    return Look(parts, primary, fallback=False, secondary=())


def laid(texts: Sequence[str]) -> tuple[str, list[Parts]]:
    """Return one text that holds all of these, and where each is."""
    parts: list[Parts] = []
    at = 0
    for text in texts:
        parts.append(((at, at + len(text)),))
        at += len(text)
    return "".join(texts), parts


def ask(guard: RegexGuard, text: str, *patterns: Pattern) -> list[PatternOutcome]:
    """Return the outcome of each pattern on its own."""
    seen = guard.search(text, [look(pattern, parts=((0, len(text)),)) for pattern in patterns])
    return [each.primary[0] for each in seen]


def run_here(text: str, *patterns: Pattern, left_ms: float = MAX_SPENT_MS) -> list[PatternOutcome]:
    """Do the same in an engine of this process."""
    job = Job(text, [look(pattern, parts=((0, len(text)),)) for pattern in patterns])
    engine = V8Engine()
    try:
        dumped = job.dump((), MAX_TIMEOUTS, ruler=Ruler(text), loaded="")
        seen, _ = job.read(Walk(engine, left_ms).run(dumped.decode()).encode())
    finally:
        engine.isolate.close()
    return [each.primary[0] for each in seen]


def ask_one(text: str, source: str, flags: str = "") -> PatternOutcome:
    return ask(RegexGuard(), text, Pattern(source, flags))[0]


# What a look sees


def test_first_primary_hit_ends_the_primary_ones() -> None:
    a, b, broken = Pattern("a", ""), Pattern("b", ""), Pattern("(", "")
    (seen,) = RegexGuard().search("a", [look(broken, b, a, b)])
    assert seen == LookResult((INVALID, MISS, HIT_FIRST), ())


def test_secondary_ones_wait_for_a_primary_hit_or_the_fallback() -> None:
    a, b = Pattern("a", ""), Pattern("b", "")
    looks = [
        Look(ONE, primary=(a,), fallback=False, secondary=(b, a)),
        Look(ONE, primary=(b,), fallback=False, secondary=(a,)),
        Look(ONE, primary=(b,), fallback=True, secondary=(a,)),
        Look(ONE, primary=(), fallback=True, secondary=(b,)),
        Look(ONE, primary=(), fallback=False, secondary=(b,)),
    ]
    assert RegexGuard().search("a", looks) == [
        LookResult((HIT_FIRST,), (MISS, HIT_FIRST)),
        LookResult((MISS,), ()),
        LookResult((MISS,), (HIT_FIRST,)),
        LookResult((), (MISS,)),
        LookResult((), ()),
    ]


@pytest.mark.parametrize(
    ("source", "flags", "text", "span"),
    [
        ("b", "", "a😀b", (2, 3)),
        ("b", "u", "😀😀b", (2, 3)),
        ("^.", "", "😀b", (0, 1)),
        (r"\ude00b", "", "a😀b", (1, 3)),
        (r"(?<=\ud83d)", "", "a😀b", (1, 2)),
        (r"\ude00.", "", "😀😀", (0, 2)),
        ("$", "", "a😀", (2, 2)),
        ("塔", "", "灯塔", (1, 2)),
    ],
)
def test_span_is_in_code_points_and_takes_in_whole_characters(
    source: str, flags: str, text: str, span: tuple[int, int]
) -> None:
    assert ask_one(text, source, flags) == PatternOutcome("hit", span)


@pytest.mark.parametrize(
    "text", ['"', "'", "`", "\\", "${x}", "\u2028", "\u2029", "\0", "</script>", "\ud800", "\x7f"]
)
def test_texts_and_patterns_are_data(text: str) -> None:
    source = "".join(f"\\u{ord(each):04x}" for each in text)
    assert ask_one(f"a{text}b", f"a{source}b") == PatternOutcome("hit", (0, len(text) + 2))
    if text != "\\" and not text.startswith("$"):
        assert ask_one(f"a{text}", f"a{text}") == PatternOutcome("hit", (0, len(text) + 1))


@pytest.mark.parametrize("flags", ["gg", "gig", "d", "v", "x", "I", " "])
def test_bad_flags_are_invalid_and_harm_nobody(flags: str) -> None:
    assert ask_one("a", "a", flags) == INVALID


def test_global_flag_leaves_no_last_index_behind() -> None:
    guard = RegexGuard()
    for flags in ("g", "gy", "y"):
        assert [ask(guard, "a", Pattern("a", flags)) for _ in range(3)] == [[HIT_FIRST]] * 3


def test_octal_escape_is_no_reference_to_a_group_of_ours() -> None:
    assert ask_one("a\2", r"(a)\2") == PatternOutcome("hit", (0, 2))
    assert ask_one("a", r"(a)\2") == MISS
    assert ask_one("b", r"(a|)\2") == MISS
    assert ask_one("b", r"(a|)(?:\2|)") == PatternOutcome("hit", (0, 0))


def test_empty_text_is_not_searched() -> None:
    looks = [
        Look((), primary=(Pattern("", ""), Pattern("(", "")), fallback=True, secondary=()),
        Look(((1, 1), (0, 0)), primary=(Pattern("", ""),), fallback=False, secondary=()),
        Look(ONE, primary=(Pattern("(", ""),), fallback=False, secondary=()),
    ]
    seen = RegexGuard().search("a", looks)
    assert seen == [
        LookResult((MISS, MISS), ()),
        LookResult((MISS,), ()),
        LookResult((INVALID,), ()),
    ]
    assert ask(RegexGuard(), "", Pattern("(", ""), Pattern("", "")) == [MISS, MISS]


def test_nothing_asked_is_nothing_seen() -> None:
    assert RegexGuard().search("", []) == []
    assert RegexGuard().search("a", [look()]) == [LookResult((), ())]


def test_same_pattern_and_text_are_run_once() -> None:
    harmless = Pattern(r"[^\n]*dragon", "")
    text = LINE * (MESSAGE_CHARS // len(LINE) * 4)
    one, many = RegexGuard(), RegexGuard()
    assert ask(one, text, harmless) == [MISS]
    assert ask(many, text, *[harmless] * 300) == [MISS] * 300
    assert many.spent_ms < 10 * one.spent_ms + 10


# Time-outs


@pytest.mark.parametrize("chars", [100, MESSAGE_CHARS, HISTORY_CHARS])
def test_harmless_patterns_never_time_out(chars: int) -> None:
    text = (LINE * (chars // len(LINE) + 1))[:chars]
    for pattern in HARMLESS:
        (outcome,) = ask(RegexGuard(), text, pattern)
        assert outcome.verdict in {"hit", "miss"}, pattern


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("(a+)+$", "a" * MESSAGE_CHARS + "!"),
        ("(a+)+$", "a" * 40 + "!"),
        ("(a|aa)+$", "a" * 100 + "!"),
        (r"(\w+\s?)*$", "word " * 3_000 + "!"),
        ("(x+x+)+y", "x" * MESSAGE_CHARS),
        (r"^(?:(.)*)*\1q", "ab" * 1_000),
        ("(a+)+$", "灯" + "a" * 40 + "!"),
    ],
)
def test_runaway_patterns_always_time_out(source: str, text: str) -> None:
    for flags in ("", "i", "u"):
        assert ask_one(text, source, flags) == TIMEOUT


def test_quadratic_pattern_counts_by_the_clock() -> None:
    guard = RegexGuard()
    assert ask(guard, " " * MESSAGE_CHARS + "!", QUADRATIC) == [TIMEOUT]
    assert guard.spent_ms > 5
    assert ask_one(" " * 100 + "!", r"\s+$") == MISS


def test_work_that_is_not_counted_is_interrupted() -> None:
    guard = RegexGuard()
    began = time.perf_counter()
    assert ask(guard, "a" * 200_000, Pattern(r"(?=(a+))\1b", "")) == [TIMEOUT]
    assert time.perf_counter() - began < 5
    assert ask(guard, "a", Pattern("a", "")) == [HIT_FIRST]


def test_others_go_on_after_a_time_out() -> None:
    text = "a" * 100 + " " * MESSAGE_CHARS + "!"
    outcomes = ask(RegexGuard(), text, Pattern("a", ""), QUADRATIC, RUNAWAY, Pattern("!", ""))
    assert outcomes[0] == HIT_FIRST
    assert outcomes[1] == TIMEOUT
    assert outcomes[3] == PatternOutcome("hit", (len(text) - 1, len(text)))


def test_pattern_that_timed_out_is_not_tried_again() -> None:
    guard = RegexGuard()
    assert ask(guard, "a" * 40 + "!", RUNAWAY) == [TIMEOUT]
    spent_ms = guard.spent_ms
    assert ask(guard, "a", RUNAWAY) == [TIMEOUT]
    assert guard.timeouts == 1
    assert guard.spent_ms - spent_ms < spent_ms / 2  # the pattern alone took about that long
    assert ask(RegexGuard(), "a", RUNAWAY) == [HIT_FIRST]


def test_quarantine_holds_within_a_search() -> None:
    text, (long, short) = laid(["a" * 40 + "!", "b"])
    looks = [(RUNAWAY, long), (RUNAWAY, short), (Pattern("b", ""), short)]
    seen = RegexGuard().search(text, [look(pattern, parts=parts) for pattern, parts in looks])
    assert [each.primary[0] for each in seen] == [TIMEOUT, TIMEOUT, HIT_FIRST]


def test_guard_closes_after_so_many_time_outs() -> None:
    guard = RegexGuard()
    guard._spent_ms = -1e9  # a slow machine must not close it earlier
    runaways = [Pattern(f"(a+)+{i}$", "") for i in range(MAX_TIMEOUTS)]
    text = "a" * 40 + "!"
    first, last = Pattern("a", ""), Pattern("!", "")
    outcomes = ask(guard, text, first, *runaways, last, Pattern("(", ""), first)
    assert outcomes == [HIT_FIRST, *[TIMEOUT] * MAX_TIMEOUTS, TIMEOUT, TIMEOUT, HIT_FIRST]
    assert guard.closed
    assert guard.timeouts == MAX_TIMEOUTS
    assert ask(guard, "a", first) == [TIMEOUT]
    assert ask(guard, "", first) == [MISS]


def test_guard_closes_after_so_much_time() -> None:
    guard = RegexGuard()
    slow = [Pattern(rf"\s+{i}$", "") for i in range(200)]
    began = time.perf_counter()
    outcomes = ask(guard, " " * MESSAGE_CHARS + "!", *slow, Pattern("!", ""))
    assert set(outcomes) == {TIMEOUT}
    assert guard.closed
    assert guard.timeouts < MAX_TIMEOUTS
    assert time.perf_counter() - began < 7


def test_many_runaways_end_soon() -> None:
    guard = RegexGuard()
    runaways = [Pattern(f"(a+)+{i}$", "") for i in range(200)]
    began = time.perf_counter()
    assert set(ask(guard, "a" * MESSAGE_CHARS + "!", *runaways)) == {TIMEOUT}
    elapsed_ms = (time.perf_counter() - began) * 1000
    print(f"200 runaways: {elapsed_ms:.0f} ms, {guard.timeouts} tried")
    assert guard.closed
    assert elapsed_ms < 7_000


def test_busy_machine_is_no_time_out() -> None:
    done = threading.Event()

    def spin() -> None:
        while not done.is_set():
            sum(range(1_000))

    threads = [threading.Thread(target=spin) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for part in range(4):
            guard = RegexGuard()  # of one request: what it may spend is for that
            text, places = laid([f"{LINE * 10}{part} {i}" for i in range(500)])
            dragon = Pattern(r"\bdragon\b.*fire", "i")
            looks = [look(dragon, parts=parts) for parts in places]
            assert guard.search(text, looks) == [LookResult((MISS,), ())] * 500
            assert (guard.timeouts, guard.closed) == (0, False)
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_starved_suspect_is_cleared_by_running_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every walk is cut short, as on a machine that gives V8 no time; nobody is blamed."""
    monkeypatch.setattr(walk_module, "_GO_WALL_MS", 3.0)
    text = LINE * (MESSAGE_CHARS // len(LINE) * 20)
    patterns = [Pattern(rf"[^\n]*dragon{i}", "") for i in range(5)]
    assert run_here(text, *patterns, left_ms=1e9) == [MISS] * 5


def test_suspect_that_is_interrupted_too_early_gets_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walk_module, "_CONFIRM_FACTOR", 0.3)
    monkeypatch.setattr(walk_module, "_CONFIRM_EXTRA_MS", 0.0)
    assert run_here("a" * 200_000, Pattern(r"(?=(a+))\1b", "")) == [TIMEOUT]


class Scripted:
    """An engine with scripted answers."""

    def __init__(self, answers: list[str | None]) -> None:
        self.walls_ms: list[float] = []
        self._answers = answers
        self._last: str | None = ""

    def call(self, command: str, _: str = "", *, wall_ms: float = 0) -> str:
        if command == "go":
            self.walls_ms.append(wall_ms)
            self._last = self._answers.pop(0)
            if self._last is None:
                raise TimeoutError
            return self._last
        return "0" if self._last is None else "5"


def test_walk_gives_more_time_only_to_a_machine_that_has_none() -> None:
    """Time that grew with each innocent suspect let a later one run for hours."""
    engine = Scripted(["pause", *["halt"] * 100, None, None, "pause", "done"])
    assert Walk(cast("V8Engine", engine), 1e9).run("") == "done"
    assert engine.walls_ms == [25] * 102 + [50, 100, 25]


# Limits


def test_a_thousand_views_of_a_text_cost_what_one_does() -> None:
    """Each view was a text of its own once: 600 MB of them ended the process in V8."""
    text = ("ab " * 400 + "\n") * 1_000
    looks = [look(Pattern("zz", ""), parts=((0, 1_201 * (i + 1)),)) for i in range(1_000)]
    job = Job(text, looks)
    assert len(job.dump((), 1, ruler=Ruler(text), loaded="")) < 2 * len(text)
    seen = RegexGuard().search(text, looks)
    assert {each.primary[0].verdict for each in seen} <= {"miss", "timeout"}
    assert seen[0].primary == (MISS,)


@pytest.mark.parametrize(
    ("limit", "most"),
    [("MAX_TEXT_CHARS", 5), ("MAX_PATTERNS_CHARS", 3), ("MAX_TRIES", 3)],
)
def test_search_over_a_limit_is_not_made(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    patterns = [Pattern(letter, "") for letter in "abc"]
    monkeypatch.setattr(job_module, limit, most)
    assert [each.verdict for each in ask(RegexGuard(), "abcde", *patterns)] == ["hit"] * 3
    monkeypatch.setattr(job_module, limit, most - 1)
    guard = RegexGuard()
    assert ask(guard, "abcde", *patterns) == [TIMEOUT] * 3
    assert guard.spent_ms == 0
    assert not guard.closed


def test_pattern_over_the_limit_times_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "MAX_PATTERN_CHARS", 3)
    monkeypatch.setattr(job_module, "MAX_PATTERNS_CHARS", 4)
    patterns = [Pattern(source, "") for source in ("aaaa", "aaa", "a")]
    assert ask(RegexGuard(), "aaaa", *patterns) == [
        TIMEOUT,
        PatternOutcome("hit", (0, 3)),
        HIT_FIRST,
    ]


@pytest.mark.parametrize("alphabet", ["a", "a灯", "a😀\ud83d\ude00", "😀"])
def test_places_in_code_units(alphabet: str) -> None:
    source = random.Random(7)
    text, ruler, grown = "", Ruler(""), Ruler("")
    for length in (0, 1, 255, 256, 257, 511, 512, 513, 1_000):
        text += "".join(source.choice(alphabet) for _ in range(length - len(text)))
        ruler, grown = Ruler(text), Ruler(text, grown)
        unit = 0
        for point in range(len(text) + 1):
            assert ruler.unit(point) == grown.unit(point) == unit
            assert grown.point(unit, up=False) == grown.point(unit, up=True) == point
            if text[point : point + 1] > "\uffff":
                assert ruler.point(unit + 1, up=False) == grown.point(unit + 1, up=False) == point
                assert ruler.point(unit + 1, up=True) == point + 1
            unit += 1 + (text[point : point + 1] > "\uffff")


def test_text_is_handed_over_once() -> None:
    """A later search of the same request sends what was added to the text."""
    text = LINE * 100
    looks = [look(Pattern("a", ""), parts=((0, len(text)),))]
    rest = Job(text, looks).dump((), 1, ruler=Ruler(text), loaded=text[:-8])
    assert len(rest) < 300
    guard = RegexGuard()
    for number in range(5):
        text += f" 塔{number}\ud83d"
        assert ask(guard, text, Pattern(f"塔{number}", "")) == [
            PatternOutcome("hit", (len(text) - 3, len(text) - 1))
        ]
    assert ask(guard, "塔", Pattern("塔", "")) == [HIT_FIRST]


# Memory


def test_backtrack_stack_that_overflows_is_a_time_out() -> None:
    bomb = Pattern("((((((((((a))))))))))*b", "")
    guard = RegexGuard()
    assert ask(guard, "a" * HISTORY_CHARS, bomb) == [TIMEOUT]
    assert ask_one("ab", "((((((((((a))))))))))*b") == PatternOutcome("hit", (0, 2))


@pytest.mark.parametrize("source", ["(" * 10_000, "(?<a>b)" * 1_400])
def test_pattern_too_large_for_the_compiler_is_invalid(source: str) -> None:
    assert ask_one("x", source) == INVALID


def test_memory_of_the_isolate_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "MEMORY_LIMIT_BYTES", 4 * 2**20)
    with pytest.raises(MemoryError):
        run_here("灯" * job_module.MAX_TEXT_CHARS, Pattern("a", ""))


def test_largest_search_has_the_memory_that_it_needs() -> None:
    text = "😀" * job_module.MAX_TEXT_CHARS
    middle = len(text) // 2
    looks = [look(Pattern("a", ""), parts=((middle - i, len(text)), (0, middle))) for i in range(3)]
    seen = RegexGuard().search(text, looks)
    assert seen[0].primary == (MISS,)


def test_many_patterns_outgrow_the_cache() -> None:
    patterns = [Pattern(f"a{i}$", "") for i in range(2_500)]
    for _ in range(2):
        outcomes = ask(RegexGuard(), "xa17", *patterns)
        assert [i for i, each in enumerate(outcomes) if each != MISS] == [17]
