"""Regex keys: what they cost, what guards them, and where V8 lives. Answers: tests/golden."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py_mini_racer import JSEvalException

from lorewell.jsregex import (
    MAX_TIMEOUTS,
    Look,
    Outcome,
    Pattern,
    RegexGuard,
    Seen,
    engine as engine_module,
    pool,
    switch_engine,
)

HIT_FIRST = Outcome("hit", (0, 1))
MISS, INVALID, TIMEOUT = Outcome("miss"), Outcome("invalid"), Outcome("timeout")
UNSUPPORTED = Outcome("unsupported")
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


def look(*primary: Pattern, text: int = 0) -> Look:
    return Look(text=text, primary=primary, fallback=False, secondary=())


def ask(guard: RegexGuard, text: str, *patterns: Pattern) -> list[Outcome]:
    """Return the outcome of each pattern on its own."""
    seen = guard.search([text], [look(pattern) for pattern in patterns])
    return [each.primary[0] for each in seen]


def ask_one(text: str, source: str, flags: str = "") -> Outcome:
    return ask(RegexGuard(), text, Pattern(source, flags))[0]


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
        env={"PYTHONPATH": str(Path(pool.__file__).parents[2]), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# What a look sees


def test_first_primary_hit_ends_the_primary_ones() -> None:
    a, b, broken = Pattern("a", ""), Pattern("b", ""), Pattern("(", "")
    (seen,) = RegexGuard().search(["a"], [look(broken, b, a, b)])
    assert seen == Seen((INVALID, MISS, HIT_FIRST), ())


def test_secondary_ones_wait_for_a_primary_hit_or_the_fallback() -> None:
    a, b = Pattern("a", ""), Pattern("b", "")
    looks = [
        Look(text=0, primary=(a,), fallback=False, secondary=(b, a)),
        Look(text=0, primary=(b,), fallback=False, secondary=(a,)),
        Look(text=0, primary=(b,), fallback=True, secondary=(a,)),
        Look(text=0, primary=(), fallback=True, secondary=(b,)),
        Look(text=0, primary=(), fallback=False, secondary=(b,)),
    ]
    assert RegexGuard().search(["a"], looks) == [
        Seen((HIT_FIRST,), (MISS, HIT_FIRST)),
        Seen((MISS,), ()),
        Seen((MISS,), (HIT_FIRST,)),
        Seen((), (MISS,)),
        Seen((), ()),
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
    assert ask_one(text, source, flags) == Outcome("hit", span)


@pytest.mark.parametrize(
    "text", ['"', "'", "`", "\\", "${x}", "\u2028", "\u2029", "\0", "</script>", "\ud800", "\x7f"]
)
def test_texts_and_patterns_are_data(text: str) -> None:
    source = "".join(f"\\u{ord(each):04x}" for each in text)
    assert ask_one(f"a{text}b", f"a{source}b") == Outcome("hit", (0, len(text) + 2))
    if text != "\\" and not text.startswith("$"):
        assert ask_one(f"a{text}", f"a{text}") == Outcome("hit", (0, len(text) + 1))


@pytest.mark.parametrize("flags", ["gg", "gig", "d", "v", "x", "I", " "])
def test_bad_flags_are_invalid_and_harm_nobody(flags: str) -> None:
    assert ask_one("a", "a", flags) == INVALID


def test_global_flag_leaves_no_last_index_behind() -> None:
    guard = RegexGuard()
    for flags in ("g", "gy", "y"):
        assert [ask(guard, "a", Pattern("a", flags)) for _ in range(3)] == [[HIT_FIRST]] * 3


def test_octal_escape_is_no_reference_to_a_group_of_ours() -> None:
    assert ask_one("a\2", r"(a)\2") == Outcome("hit", (0, 2))
    assert ask_one("a", r"(a)\2") == MISS
    assert ask_one("b", r"(a|)\2") == MISS
    assert ask_one("b", r"(a|)(?:\2|)") == Outcome("hit", (0, 0))


def test_empty_text_is_not_searched() -> None:
    looks = [
        Look(text=0, primary=(Pattern("", ""), Pattern("(", "")), fallback=True, secondary=()),
        Look(text=1, primary=(Pattern("(", ""),), fallback=False, secondary=()),
    ]
    seen = RegexGuard().search(["", "a"], looks)
    assert seen == [Seen((MISS, MISS), ()), Seen((INVALID,), ())]
    assert ask(RegexGuard(), "", Pattern("(", ""), Pattern("", "")) == [MISS, MISS]


def test_nothing_asked_is_nothing_seen() -> None:
    assert RegexGuard().search([], []) == []
    assert RegexGuard().search(["a"], [look()]) == [Seen((), ())]


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
    assert outcomes[3] == Outcome("hit", (len(text) - 1, len(text)))


def test_pattern_that_timed_out_is_not_tried_again() -> None:
    guard = RegexGuard()
    assert ask(guard, "a" * 40 + "!", RUNAWAY) == [TIMEOUT]
    spent_ms = guard.spent_ms
    assert ask(guard, "a", RUNAWAY) == [TIMEOUT]
    assert guard.timeouts == 1
    assert guard.spent_ms - spent_ms < 1
    assert ask(RegexGuard(), "a", RUNAWAY) == [HIT_FIRST]


def test_quarantine_holds_within_a_search() -> None:
    looks = [look(RUNAWAY), look(RUNAWAY, text=1), look(Pattern("b", ""), text=1)]
    seen = RegexGuard().search(["a" * 40 + "!", "b"], looks)
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
            texts = [f"{LINE * 10}{part} {i}" for i in range(500)]
            looks = [look(Pattern(r"\bdragon\b.*fire", "i"), text=i) for i in range(500)]
            assert guard.search(texts, looks) == [Seen((MISS,), ())] * 500
            assert (guard.timeouts, guard.closed) == (0, False)
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_starved_suspect_is_cleared_by_running_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every walk is cut short, as on a machine that gives V8 no time; nobody is blamed."""
    monkeypatch.setattr("lorewell.jsregex.guard._GO_WALL_MS", 3.0)
    text = LINE * (MESSAGE_CHARS // len(LINE) * 20)
    patterns = [Pattern(rf"[^\n]*dragon{i}", "") for i in range(5)]
    guard = RegexGuard()
    assert ask(guard, text, *patterns) == [MISS] * 5
    assert guard.timeouts == 0


def test_suspect_that_is_interrupted_too_early_gets_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lorewell.jsregex.guard._CONFIRM_FACTOR", 0.3)
    monkeypatch.setattr("lorewell.jsregex.guard._CONFIRM_EXTRA_MS", 0.0)
    guard = RegexGuard()
    assert ask(guard, "a" * 200_000, Pattern(r"(?=(a+))\1b", "")) == [TIMEOUT]
    assert guard.spent_ms > 5 * 200_000 / MESSAGE_CHARS


# Memory


def test_backtrack_stack_that_overflows_is_a_time_out() -> None:
    bomb = Pattern("((((((((((a))))))))))*b", "")
    guard = RegexGuard()
    assert ask(guard, "a" * HISTORY_CHARS, bomb) == [TIMEOUT]
    assert ask_one("ab", "((((((((((a))))))))))*b") == Outcome("hit", (0, 2))


@pytest.mark.parametrize("source", ["(" * 200_000, "()" * 70_000])
def test_pattern_too_large_for_the_compiler_is_invalid(source: str) -> None:
    assert ask_one("x", source) == INVALID


def test_isolate_out_of_memory_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    pool.ENGINES.close_idle()
    monkeypatch.setattr(engine_module, "MEMORY_LIMIT_BYTES", 30 * 2**20)
    guard = RegexGuard()
    assert ask(guard, "灯" * 6_000_000, Pattern("a", "")) == [TIMEOUT]
    monkeypatch.undo()
    assert ask(guard, "a", Pattern("a", "")) == [HIT_FIRST]


# Life of the engine


def test_switched_off_nothing_is_supported() -> None:
    switch_engine(on=False)
    a = Pattern("a", "")
    looks = [look(a, a), Look(text=0, primary=(a,), fallback=True, secondary=(a,)), look(a, text=1)]
    assert RegexGuard().search(["a", ""], looks) == [
        Seen((UNSUPPORTED, UNSUPPORTED), ()),
        Seen((UNSUPPORTED,), (UNSUPPORTED,)),
        Seen((MISS,), ()),
    ]


@pytest.mark.parametrize(("value", "verdict"), [("off", "unsupported"), ("", "hit")])
def test_environment_switches_the_engine(value: str, verdict: str) -> None:
    code = """
from lorewell.jsregex import *
seen, = RegexGuard().search(["a"], [Look(0, (Pattern("a", ""),), False, ())])
import sys
print(seen.primary[0].verdict, "py_mini_racer" in sys.modules)
"""
    assert run_python(code, LOREWELL_REGEX_ENGINE=value) == f"{verdict} {verdict == 'hit'}"


def test_import_and_idle_searches_start_nothing() -> None:
    code = """
import sys
from lorewell.jsregex import *
RegexGuard().search(["", "a"], [Look(0, (Pattern("a", ""),), False, ()), Look(1, (), True, ())])
print(sorted({"py_mini_racer", "asyncio"} & set(sys.modules)))
"""
    assert run_python(code) == "[]"


def test_platform_without_v8_supports_nothing() -> None:
    code = """
import sys
sys.modules["py_mini_racer"] = None
from lorewell.jsregex import *
for _ in range(2):
    seen, = RegexGuard().search(["a"], [Look(0, (Pattern("a", ""),), False, ())])
    print(seen.primary[0].verdict)
"""
    assert run_python(code).split() == ["unsupported"] * 2


def test_v8_started_by_others_without_our_flags_supports_nothing() -> None:
    code = """
import py_mini_racer
with py_mini_racer.mini_racer() as other:
    from lorewell.jsregex import *
    seen, = RegexGuard().search(["a"], [Look(0, (Pattern("a", ""),), False, ())])
    print(seen.primary[0].verdict, other.eval("1 + 1"))
"""
    assert run_python(code) == "unsupported 2"


@pytest.mark.skipif(not hasattr(pool.os, "fork"), reason="no fork on this platform")
@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"])
def test_engine_works_on_both_sides_of_a_fork(end: str) -> None:
    code = f"""
import os, sys, threading
from lorewell.jsregex import *
def verdict():
    seen, = RegexGuard().search(["a"], [Look(0, (Pattern("a", ""),), False, ())])
    return seen.primary[0].verdict
print(verdict(), flush=True)
going = True
def others():
    while going:
        verdict()
thread = threading.Thread(target=others)
thread.start()
pid = os.fork()
if pid == 0:
    print("child", verdict(), flush=True)
    {end}
print("ended", os.waitpid(pid, 0)[1], verdict(), flush=True)
going = False
thread.join()
"""
    assert run_python(code).split("\n") == ["hit", "child hit", "ended 0 hit"]


def test_search_works_inside_a_running_event_loop() -> None:
    code = """
import asyncio
from lorewell.jsregex import *
async def main():
    seen, = RegexGuard().search(["a"], [Look(0, (Pattern("a", ""),), False, ())])
    print(seen.primary[0].verdict)
asyncio.run(main())
"""
    assert run_python(code) == "hit"


def test_threads_search_at_once() -> None:
    def work(number: int) -> list[Outcome]:
        guard = RegexGuard()
        return [
            outcome
            for i in range(20)
            for outcome in ask(guard, f"a{number}-{i}b", Pattern(f"a{number}-{i}", ""))
        ]

    with ThreadPoolExecutor(8) as executor:
        answers = list(executor.map(work, range(8)))
    for number, outcomes in enumerate(answers):
        assert outcomes == [Outcome("hit", (0, len(f"a{number}-{i}"))) for i in range(20)]


def test_many_patterns_outgrow_the_cache() -> None:
    patterns = [Pattern(f"a{i}$", "") for i in range(2_500)]
    for _ in range(2):
        outcomes = ask(RegexGuard(), "xa17", *patterns)
        assert [i for i, each in enumerate(outcomes) if each != MISS] == [17]


def test_pool_tries_once_to_start_what_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "PROGRAM", "throw new Error('no')")
    engines = pool.Pool(1)
    for _ in range(2):
        with pytest.raises(pool.NoEngineError), engines.borrow():
            pass
        monkeypatch.undo()


def test_pool_lends_the_engine_used_last_and_a_new_one_after_a_fork() -> None:
    engines = pool.Pool(2)
    with engines.borrow() as first:
        pass
    with engines.borrow() as second, engines.borrow() as third:
        assert second is first
        assert third is not first
    engines.before_fork()
    engines.after_fork_in_parent()
    with engines.borrow() as fourth:
        assert fourth not in {first, third}
    engines.close_idle()
    engines.after_fork_in_child()
    with engines.borrow() as fifth:
        assert fifth is not fourth
    engines.close_idle()


def test_engine_that_answers_no_more_is_not_lent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise JSEvalException("null")

    engines = pool.Pool(1)
    with engines.borrow() as engine:
        monkeypatch.setattr(engine, "_run", fail)
        with pytest.raises(MemoryError):
            engine.call("limit")
    with engines.borrow() as other:
        assert other is not engine
        assert other.call("limit") == "0"
    engines.close_idle()
