"""The process that V8 runs in: how it starts and ends, and what happens when it fails."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lorewell.jsregex import (
    Look,
    LookResult,
    Pattern,
    PatternOutcome,
    RegexGuard,
    guard as guard_module,
    pool,
    process as process_module,
    switch_engine,
)
from lorewell.jsregex.job import Job
from lorewell.jsregex.pool import Pool
from lorewell.jsregex.process import EngineProcess

A = Pattern("a", "")
HIT, UNSUPPORTED = PatternOutcome("hit", (0, 1)), PatternOutcome("unsupported")
ASK_A = Look(((0, 1),), (A,), fallback=False, secondary=())
on_posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and forks of POSIX")
on_linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc")

VERDICT = """
from lorewell.jsregex import *
from lorewell.jsregex.pool import ENGINES
def verdict():
    seen, = RegexGuard().search("a", [Look(((0, 1),), (Pattern("a", ""),), False, ())])
    return seen.primary[0].verdict
def child():
    engine, = ENGINES._running
    return engine._process.pid
"""


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """Return a pool of one engine, in place of that of this process."""
    engines = Pool(1)
    engines.switch(on=True)
    monkeypatch.setattr(guard_module, "ENGINES", engines)
    yield engines
    engines.close()


def ask(guard: RegexGuard, text: str = "a") -> PatternOutcome:
    return guard.search(text, [ASK_A])[0].primary[0]


def running(engines: Pool) -> EngineProcess:
    (engine,) = engines._running
    return engine


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
    assert done.stderr == ""
    return done.stdout.strip()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Start


def test_switched_off_nothing_is_supported(engines: Pool) -> None:
    engines.switch(on=False)
    looks = [
        Look(((0, 1),), (A, A), fallback=False, secondary=()),
        Look(((0, 1),), (A,), fallback=True, secondary=(A,)),
        Look((), (A,), fallback=False, secondary=()),
    ]
    assert RegexGuard().search("a", looks) == [
        LookResult((UNSUPPORTED, UNSUPPORTED), ()),
        LookResult((UNSUPPORTED,), (UNSUPPORTED,)),
        LookResult((PatternOutcome("miss"),), ()),
    ]
    assert not engines._running


@pytest.mark.parametrize(("value", "verdict"), [("off", "unsupported"), ("", "hit")])
def test_environment_switches_the_engine(value: str, verdict: str) -> None:
    code = f"{VERDICT}\nprint(verdict(), len(ENGINES._running))"
    assert run_python(code, LOREWELL_REGEX_ENGINE=value) == f"{verdict} {int(verdict == 'hit')}"


def test_switch_of_the_process() -> None:
    code = f"""{VERDICT}
for on in (False, True, None):
    switch_engine(on=on)
    print(verdict())
"""
    assert run_python(code).split() == ["unsupported", "hit", "hit"]
    assert switch_engine is pool.switch_engine


def test_import_and_idle_searches_start_nothing() -> None:
    code = f"""{VERDICT}
import sys
RegexGuard().search("a", [Look((), (Pattern("a", ""),), False, ()), Look(((0, 1),), (), True, ())])
print(len(ENGINES._running), sorted({{"py_mini_racer", "asyncio"}} & set(sys.modules)))
"""
    assert run_python(code) == "0 []"


def test_parent_never_loads_v8() -> None:
    assert run_python(
        f"{VERDICT}\nimport sys\nprint(verdict(), 'py_mini_racer' in sys.modules)"
    ) == ("hit False")


def test_platform_without_v8_supports_nothing(tmp_path: Path) -> None:
    (tmp_path / "py_mini_racer.py").write_text("raise ImportError")
    code = f"""{VERDICT}
import sys
sys.path.insert(0, {str(tmp_path)!r})
print(verdict(), verdict())
"""
    assert run_python(code) == "unsupported unsupported"


def test_child_finds_packages_where_its_parent_does(tmp_path: Path) -> None:
    """Neither the directory nor the environment it starts in gives it other modules."""
    (tmp_path / "json.py").write_text("raise SystemExit")
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit")
    code = f"""
import sys, os
sys.path.insert(0, {str(Path(pool.__file__).parents[2])!r})
{VERDICT}
os.environ["PYTHONPATH"] = {str(tmp_path)!r}
os.chdir({str(tmp_path)!r})
sys.path.remove("")
print(verdict())
"""
    assert run_python(code) == "hit"


def test_app_with_a_v8_of_its_own_keeps_both() -> None:
    code = f"""
import py_mini_racer
with py_mini_racer.mini_racer() as other:
    {VERDICT.replace(chr(10), chr(10) + "    ")}
    print(verdict(), other.eval("1 + 1"))
"""
    assert run_python(code) == "hit 2"


@pytest.mark.parametrize("executable", ["", "/there/is/none", "/bin/true"])
def test_no_interpreter_to_start_is_no_engine(
    executable: str, engines: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app that embeds Python has none; nothing is tried again for a while."""
    monkeypatch.setattr(sys, "executable", executable)
    assert ask(RegexGuard()) == UNSUPPORTED
    monkeypatch.undo()
    monkeypatch.setattr(guard_module, "ENGINES", engines)
    assert ask(RegexGuard()) == UNSUPPORTED
    engines._no_start_before = 0.0
    assert ask(RegexGuard()) == HIT


def test_frozen_app_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert ask(RegexGuard()) == UNSUPPORTED


def test_no_thread_to_be_had_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert ask(RegexGuard()) == UNSUPPORTED


# Failure


def test_crash_is_unsupported_for_its_request_alone(
    engines: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = RegexGuard()
    assert ask(RegexGuard()) == HIT
    with monkeypatch.context() as patched:
        patched.setattr(Job, "dump", lambda *_, **__: b"no job")  # V8 gives up on it, and ends
        assert ask(guard) == UNSUPPORTED
    assert not engines._running
    assert ask(guard) == UNSUPPORTED
    assert not engines._running
    assert ask(RegexGuard()) == HIT


def test_engine_that_died_idle_is_replaced(engines: Pool) -> None:
    assert ask(RegexGuard()) == HIT
    engine = running(engines)
    engine._process.kill()
    engine._process.wait(20)
    assert ask(RegexGuard()) == HIT
    assert running(engines) is not engine


@on_posix
def test_engine_that_hangs_is_stopped(engines: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(RegexGuard()) == HIT
    engine = running(engines)
    os.kill(engine._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(process_module, "_MAX_WAIT_SECONDS", 0.1)
    assert ask(RegexGuard(), "a" * 1_000_000) == UNSUPPORTED
    monkeypatch.undo()
    monkeypatch.setattr(guard_module, "ENGINES", engines)
    wait_until_gone(engine._process.pid)
    assert ask(RegexGuard()) == HIT


class LeftError(Exception):
    """The caller has left."""


@on_posix
def test_watch_ends_a_search(engines: Pool) -> None:
    calls = 0

    def watch() -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise LeftError

    assert ask(RegexGuard(watch=lambda: None)) == HIT
    engine = running(engines)
    os.kill(engine._process.pid, signal.SIGSTOP)
    with pytest.raises(LeftError):
        ask(RegexGuard(watch=watch))
    wait_until_gone(engine._process.pid)
    assert ask(RegexGuard()) == HIT


def test_watch_ends_a_start_and_a_wait_for_an_engine(engines: Pool) -> None:
    def leave() -> None:
        raise LeftError

    with pytest.raises(LeftError):
        EngineProcess(leave)
    with engines.borrow(), pytest.raises(LeftError):
        ask(RegexGuard(watch=leave))
    assert ask(RegexGuard()) == HIT


def test_wait_for_an_engine_has_an_end(engines: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_MAX_WAIT_SECONDS", 0.1)
    with engines.borrow():
        assert ask(RegexGuard()) == UNSUPPORTED
    assert ask(RegexGuard()) == HIT


def test_threads_search_at_once() -> None:
    def work(number: int) -> list[PatternOutcome]:
        guard = RegexGuard()
        return [
            guard.search(f"a{number}-{i}b", [Look(((0, 9),), (key,), False, ())])[0].primary[0]  # noqa: FBT003
            for i in range(20)
            for key in [Pattern(f"a{number}-{i}", "")]
        ]

    with ThreadPoolExecutor(8) as executor:
        answers = list(executor.map(work, range(8)))
    for number, outcomes in enumerate(answers):
        assert outcomes == [PatternOutcome("hit", (0, len(f"a{number}-{i}"))) for i in range(20)]


def test_search_works_inside_a_running_event_loop() -> None:
    code = f"""{VERDICT}
import asyncio
async def main():
    print(verdict())
asyncio.run(main())
"""
    assert run_python(code) == "hit"


# End


@on_posix
def test_signals_from_the_keyboard_are_not_for_the_child(engines: Pool) -> None:
    assert ask(RegexGuard()) == HIT
    engine = running(engines)
    for number in (signal.SIGINT, signal.SIGTERM):
        engine._process.send_signal(number)
    assert ask(RegexGuard()) == HIT
    assert running(engines) is engine


@on_posix
@pytest.mark.parametrize("end", ["sys.exit()", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_child_ends_with_its_parent(end: str) -> None:
    code = f"{VERDICT}\nimport os, sys\nprint(verdict(), child(), flush=True)\n{end}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False, timeout=60
    )
    verdict, pid = done.stdout.split()
    assert (verdict, done.stderr) == ("hit", "")
    wait_until_gone(int(pid))


@on_linux
def test_child_holds_no_socket_of_its_parent(engines: Pool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.set_inheritable(True)
        assert ask(RegexGuard()) == HIT
        ours = Path(f"/proc/self/fd/{listening.fileno()}").readlink()
        theirs = Path(f"/proc/{running(engines)._process.pid}/fd")
        assert ours not in [link.readlink() for link in theirs.iterdir()]


@on_posix
@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"])
def test_engine_works_on_both_sides_of_a_fork(end: str) -> None:
    code = f"""{VERDICT}
import os, sys, threading
print(verdict(), flush=True)
going = True
def others():
    while going:
        verdict()
thread = threading.Thread(target=others)
thread.start()
pid = os.fork()
if pid == 0:
    print("child", len(ENGINES._running), verdict(), flush=True)
    {end}
print("ended", os.waitpid(pid, 0)[1], verdict(), flush=True)
going = False
thread.join()
"""
    assert run_python(code).split("\n") == ["hit", "child 0 hit", "ended 0 hit"]


@on_posix
def test_fork_does_not_keep_the_engines_of_its_parent_alive() -> None:
    code = f"""{VERDICT}
import os, time
print(verdict(), child(), flush=True)
pid = os.fork()
if pid == 0:
    os.close(1)
    os.close(2)
    time.sleep(60)
print(pid, flush=True)
os._exit(0)
"""
    verdict, engine, fork = run_python(code).split()
    try:
        wait_until_gone(int(engine))
    finally:
        os.kill(int(fork), signal.SIGKILL)
    assert verdict == "hit"


def test_pool_lends_the_engine_used_last() -> None:
    engines = Pool(2)
    engines.switch(on=True)
    try:
        with engines.borrow() as first:
            pass
        with engines.borrow() as second, engines.borrow() as third:
            assert second is first
            assert third is not first
    finally:
        engines.close()
    assert not first.is_alive
