"""Plays the cases through an engine and compares its answers with SillyTavern's, field by field.

The engine is a command that reads and writes lines of JSON, or a URL that accepts POST requests.
Needs only Python 3.11; README.md documents the format.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
CASES = HERE / "sillytavern" / "cases"
ALL_CASES = (CASES, HERE / "sillytavern" / "cases-1.19", HERE / "sillytavern" / "macros")
DEFAULTS = HERE / "sillytavern" / "defaults.json"

Object = dict[str, Any]

COMPARED = (
    *("activated", "worldInfoBefore", "worldInfoAfter", "EMEntries", "WIDepthEntries"),
    *("ANBeforeEntries", "ANAfterEntries", "outletEntries", "authorsNote", "timedState"),
    *("budget", "overflowed", "drawsUsed"),
)
# Only in cases of macros; other cases expect nothing of them.
MACROS = ("variables", "banned", "chatIdHash")
LEDGER = ("loops", "events")
# Without the setting, cases of this release were recorded with the new macro engine.
_NEW_ENGINE = "1.19"
# SillyTavern does not record the entry's book in these events.
_UID_ALONE = ("probability_passed", "probability_failed", "delay_level")
_ABSENT = "nothing"
_SHOWN_CHARS = 300
_OK = 200


class Step(NamedTuple):
    """One request of a case.

    Attributes:
        request: sent to the engine.
        expected: SillyTavern's result; None where it threw an error, which no engine has to do.
    """

    request: Object
    expected: Object | None


class EngineError(Exception):
    """The engine did not answer."""


class Engine(Protocol):
    """An engine under test."""

    def ask(self, request: Object) -> Object:
        """Return the answer to a request, or raise EngineError."""

    def close(self) -> None:
        """End the process or the connection."""


def load_cases(*folders: Path) -> list[Object]:
    """Return the cases of all files in the folders, in the order of file names."""
    return [
        _with_engine(case, folder)
        for folder in folders
        for file in sorted(folder.glob("*.json"))
        for case in json.loads(file.read_text(encoding="utf-8"))
    ]


def _with_engine(case: Object, folder: Path) -> Object:
    readme = folder / "README.md"
    is_new = case["id"].startswith("st119-") or (
        readme.is_file() and _NEW_ENGINE in readme.read_text(encoding="utf-8").partition("\n")[0]
    )
    return {**case, "settings": {"macro_engine": "new", **case["settings"]}} if is_new else case


def load_defaults() -> Mapping[str, Object]:
    """Return the default members of settings, entries and steps."""
    defaults: Mapping[str, Object] = json.loads(DEFAULTS.read_text(encoding="utf-8"))
    return defaults


def steps_of(case: Object, defaults: Mapping[str, Object]) -> Iterator[Step]:
    """Yield the steps of a case, each with a complete request.

    Each step starts with SillyTavern's timed state and variables, so a wrong answer in one step
    does not affect the next.
    """
    shared = {
        "settings": {**defaults["settings"], **case["settings"]},
        "books": {name: _expanded(book, defaults["entry"]) for name, book in case["books"].items()},
        "attach": {**defaults["attach"], **case["attach"]},
        "names": case["names"],
        "card": case["card"],
        "macroInputs": case.get("macroInputs"),
    }
    state: Object | None = case["timedState"]
    queued: list[Object] = []
    kept: Object = {}
    kept_chat: Object = {}
    for number, step in enumerate(case["steps"]):
        expected = step["expected"]
        queued = [*queued, *step.get("force", [])]
        given = {**defaults["step"], **step, "force": queued}
        del given["expected"]
        given["globalScanData"] = {
            **defaults["globalScanData"],
            **(step.get("globalScanData") or {}),
        }
        given["extensionPrompts"] = [{"scan": True, **each} for each in given["extensionPrompts"]]
        request = {"case": case["id"], "step": number, **shared, "timedState": state, **given}
        if case.get("macroInputs") is not None:
            inputs = {**case["macroInputs"], **kept, **step.get("macroInputs", {})}
            inputs["chatMetadata"] = {**inputs.get("chatMetadata", {}), **kept_chat}
            request["macroInputs"] = inputs
        threw = expected["error"] is not None
        yield Step(request, None if threw else {**expected, "drawsUsed": len(step["rng"])})
        if threw:
            return
        state = expected["timedState"]
        if "variables" in expected:
            kept = {"variables": expected["variables"]}
        if expected.get("chatIdHash") is not None:
            kept_chat = {"chat_id_hash": expected["chatIdHash"]}
        if expected["budget"] is not None:  # a scan without entries leaves the queue as it is
            queued = []


def _expanded(book: Object, template: Object) -> Object:
    """Return a book with all fields of its entries, in the order that their hash depends on."""
    if book.get("raw"):
        return {"entries": book["entries"]}
    return {
        "entries": {
            name: {"uid": entry["uid"], **template, **entry}
            for name, entry in book["entries"].items()
        }
    }


def differences(expected: Object, answer: Object, *, ledger: bool = False) -> list[str]:
    """Return a sentence for each field that differs.

    Args:
        expected: SillyTavern's result.
        answer: the engine's answer.
        ledger: whether loops and events are required; else they are compared if present.
    """
    if answer.get("error") is not None:
        return [f"engine error: {answer['error']}"]
    ledger_fields = [name for name in LEDGER if ledger or answer.get(name) is not None]
    found = []
    macro_fields = [name for name in MACROS if name in expected]
    for name in (*COMPARED, *macro_fields, *ledger_fields):
        want, got = expected[name], answer.get(name, _ABSENT)
        if name == "events":
            want, got = _comparable(want), _comparable(got)
        if not same(want, got):
            found.append(f"{name}: {_first_difference(want, got)}")
    return found


def _comparable(events: Any) -> Any:  # noqa: ANN401  an answer can be anything
    if not isinstance(events, list):
        return events
    return [
        [event[0], str(event[1]).rsplit(".", 1)[-1]]
        if isinstance(event, list) and len(event) > 1 and event[0] in _UID_ALONE
        else event
        for event in events
    ]


def same(one: object, other: object) -> bool:
    """Return whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return (type(one) is type(other) and one == other) or (_is_number(one, other) and one == other)


def _is_number(*values: object) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _first_difference(want: object, got: object) -> str:
    """Return both values; for lists, both items at the first difference."""
    if isinstance(want, list) and isinstance(got, list):
        pairs = enumerate(zip(want, got, strict=False))
        at = next((at for at, (one, other) in pairs if not same(one, other)), None)
        at = min(len(want), len(got)) if at is None else at
        one, other = want[at : at + 1], got[at : at + 1]
        return f"[{at}] expected {_shown(*one)}, answered {_shown(*other)}"
    return f"expected {_shown(want)}, answered {_shown(got)}"


def _shown(*value: object) -> str:
    """Return a value as JSON, cut to one short line; `nothing` without a value."""
    text = json.dumps(value[0], ensure_ascii=True) if value else _ABSENT
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


class Command:
    """A program that answers each line of JSON on stdin with one on stdout.

    It keeps running, and is restarted if it ends after an answer. With `one_shot` it is started
    for every request, and its stdin is closed after the line.
    """

    def __init__(self, command: Sequence[str], *, timeout_s: float, one_shot: bool = False) -> None:
        """Take the program and its arguments; the first request starts it."""
        self._command = list(command)
        self._timeout_s = timeout_s
        self._one_shot = one_shot
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def ask(self, request: Object) -> Object:
        """Return the answer to a request, or raise EngineError."""
        line = json.dumps(request)  # ASCII: some cases hold lone surrogates
        is_fresh = self._process is None
        answer = self._try(line)
        if not answer and not is_fresh:  # it ended after its last answer
            answer = self._try(line)
        if not answer:
            message = "the command ended without an answer"
            raise EngineError(message)
        return _parsed(answer)

    def _try(self, line: str) -> str:
        """Return the answered line; empty if the program ended."""
        process = self._process or self._start()
        with suppress(OSError):  # it may have stopped reading; its output still counts
            print(line, file=process.stdin, flush=True)
            if self._one_shot and process.stdin:
                process.stdin.close()
        try:
            answer = self._lines.get(timeout=self._timeout_s)
        except queue.Empty:
            self.close()
            message = f"no answer within {self._timeout_s:g} s"
            raise EngineError(message) from None
        if not answer or self._one_shot:
            self.close()
        return answer

    def _start(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, encoding="utf-8")
        except OSError as error:
            message = f"{self._command[0]} can't be started: {error.strerror}"
            raise EngineError(message) from error
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            with suppress(ValueError):  # not UTF-8: treated as no answer
                for line in process.stdout or ():
                    if line.strip():
                        lines.put(line)
            lines.put("")

        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()
        self._process, self._lines = process, lines
        return process

    def close(self) -> None:
        """End the program."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        self._reader.join(timeout=1)
        for stream in (process.stdin, process.stdout):
            if stream:
                with suppress(OSError):
                    stream.close()


class Address:
    """A service that answers POST requests with JSON."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """Take a URL with `http` or `https`."""
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.hostname or "localhost", parts.port, timeout=timeout_s)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def ask(self, request: Object) -> Object:
        """Return the answer to a request, or raise EngineError."""
        body = json.dumps(request).encode()
        try:
            self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, HTTPException) as error:
            self._connection.close()
            message = f"no answer: {error}"
            raise EngineError(message) from error
        if response.status != _OK:
            message = f"status {response.status}: {text[:_SHOWN_CHARS]}"
            raise EngineError(message)
        return _parsed(text)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _parsed(text: str) -> Object:
    try:
        answer = json.loads(text)
    except ValueError as error:
        message = f"the answer is not JSON: {text[:_SHOWN_CHARS]!r}"
        raise EngineError(message) from error
    if not isinstance(answer, dict):
        message = f"the answer is not a JSON object: {text[:_SHOWN_CHARS]!r}"
        raise EngineError(message)
    return answer


class Score(NamedTuple):
    """Numbers of passed, failed and skipped cases, of one feature or in total."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: tuple[object, ...]) -> Score:
        """Return the sum, figure by figure."""
        return Score(*(one + int(str(more)) for one, more in zip(self, other, strict=True)))


def play(case: Object, engine: Engine, defaults: Mapping[str, Object], *, ledger: bool) -> Score:
    """Play a case, print its differences, and return its score."""
    failed = False
    for request, expected in steps_of(case, defaults):
        if expected is None:
            print(f"SKIP {case['id']}, step {request['step'] + 1}: SillyTavern throws here")
            return Score(failed=1) if failed else Score(skipped=1)
        try:
            found = differences(expected, engine.ask(request), ledger=ledger)
        except EngineError as error:
            found = [str(error)]
        if found:
            failed = True
            print(f"FAIL {case['id']}, step {request['step'] + 1}: {case['description']}")
            print("".join(f"  {sentence}\n" for sentence in found), end="", flush=True)
    return Score(failed=1) if failed else Score(passed=1)


def play_all(
    cases: Sequence[Object], engine: Engine, *, ledger: bool, most_failures: int
) -> dict[str, Score]:
    """Play the cases and return the scores by feature."""
    defaults, scores, failed = load_defaults(), dict[str, Score](), 0
    for case in cases:
        score = play(case, engine, defaults, ledger=ledger)
        scores[case["feature"]] = scores.get(case["feature"], Score()) + score
        failed += score.failed
        if 0 < most_failures <= failed:
            print(f"Stopped after {failed} failures; --failures 0 never stops.")
            break
    return scores


def print_scores(scores: Mapping[str, Score]) -> Score:
    """Print a line for each feature and a total; return the total."""
    total = Score()
    for score in scores.values():
        total += score
    for name, score in {**scores, "all": total}.items():
        played = score.passed + score.failed
        note = f", {score.skipped} skipped" if score.skipped else ""
        print(f"{name:18} {score.passed:5} of {played:5} pass{note}")
    return total


def chosen(cases: Sequence[Object], only: Sequence[str], every: int) -> list[Object]:
    """Return every Nth of the cases whose ids start with one of `only`; all without `only`."""
    wanted = [case for case in cases if not only or case["id"].startswith(tuple(only))]
    return wanted[:: max(every, 1)]


def main(arguments: Sequence[str]) -> int:
    """Play the cases; return 0 if all pass, 1 if some fail, 2 if none was played."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="POST the requests to this URL, instead of running a command")
    parser.add_argument("--cases", type=Path, help="folder of cases")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        help="play only cases whose id starts with this (repeatable)",
    )
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="play only every Nth case"
    )
    parser.add_argument(
        "--ledger", action="store_true", help="require loops and events in every answer"
    )
    parser.add_argument(
        "--one-shot", action="store_true", help="start the command anew for each step"
    )
    parser.add_argument(
        "--timeout", type=float, default=60, metavar="S", help="seconds per step (60)"
    )
    parser.add_argument(
        "--failures", type=int, default=20, metavar="N", help="stop after N failures (20); 0: never"
    )
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, help="command of the engine, with its arguments"
    )
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if bool(options.url) == bool(command):
        parser.error("give either --url or a command")
    cases = chosen(
        load_cases(*([options.cases] if options.cases else ALL_CASES)), options.only, options.every
    )
    if not cases:
        parser.error("no cases match")
    engine: Engine = (
        Address(options.url, timeout_s=options.timeout)
        if options.url
        else Command(command, timeout_s=options.timeout, one_shot=options.one_shot)
    )
    try:
        scores = play_all(cases, engine, ledger=options.ledger, most_failures=options.failures)
    finally:
        engine.close()
    return 1 if print_scores(scores).failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
