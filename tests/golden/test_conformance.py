"""The runner for other engines: it passes ours, and catches whatever is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import conform
from conform import COMPARED, differences, load_defaults, same, steps_of
from golden.cases import conformance_cases
from lorewell_engine import answer_to

HERE = Path(conform.__file__).parent
ENGINE = [sys.executable, str(HERE / "lorewell_engine.py")]
EVERY = "1" if os.environ.get("LOREWELL_HYPOTHESIS") == "deep" else "40"


class Run(NamedTuple):
    """The exit code of the runner, and what it printed."""

    code: int
    out: str

    @property
    def last(self) -> list[str]:
        return self.out.splitlines()[-1].split()


Runner = Callable[..., Run]


@pytest.fixture(name="run")
def make_run(capfd: pytest.CaptureFixture[str]) -> Runner:
    def run(*arguments: str | Path) -> Run:
        try:
            code = conform.main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = int(str(ended.code))
        return Run(code, "".join(capfd.readouterr()))

    return run


def engine(folder: Path, body: str) -> list[str]:
    """Return a command that answers as ours does, after `body` was at the answer."""
    script = folder / "engine.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\n"
        "import json\nfrom lorewell_engine import answer_to\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n    answer = answer_to(asked)\n"
        f"    {body}\n"
        "    print(json.dumps(answer), flush=True)\n",
        encoding="utf-8",
    )
    return [sys.executable, str(script)]


def step(case_id: str, number: int = 0) -> tuple[Any, Any]:
    request, expected = list(steps_of(conformance_cases()[case_id], load_defaults()))[number]
    return request, expected


def test_ours_passes() -> None:
    """As outsiders start it: isolated, so that nothing of ours can be on its path."""
    done = subprocess.run(
        [sys.executable, "-I", HERE / "conform.py", "--ledger", "--every", EVERY, *ENGINE],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("all ")


def test_what_sillytavern_throws_at_is_skipped(run: Runner) -> None:
    done = run("--only", "groups-063", *ENGINE)
    assert (done.code, " ".join(done.last)) == (0, "all 0 of 0 pass, 1 skipped")


@pytest.mark.parametrize("name", [*COMPARED, "loops", "events"])
def test_each_wrong_field_is_caught(name: str) -> None:
    request, expected = step("timed-041")
    answer = answer_to(request)
    assert differences(expected, answer, ledger=True) == []
    wrong = {**answer, name: "wrong"}
    assert [found.partition(":")[0] for found in differences(expected, wrong)] == [name]
    del wrong[name]
    assert [found.partition(":")[0] for found in differences(expected, wrong, ledger=True)] == [
        name
    ]


def test_ledger_may_be_left_out() -> None:
    request, expected = step("timed-041")
    answer = {name: answer_to(request)[name] for name in COMPARED}
    assert differences(expected, answer) == []
    assert len(differences(expected, answer, ledger=True)) == 2


def test_lists_differ_at_their_first_difference() -> None:
    request, expected = step("sources_sorting-020")
    answer = answer_to(request)
    told = differences(expected, {**answer, "activated": answer["activated"][:-1]})
    last = len(answer["activated"]) - 1
    assert told == [f'activated: [{last}] expected "{answer["activated"][-1]}", answered nothing']


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (None, False, False),
        ({"雾": [1, None]}, {"雾": [1.0, None]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1], [1, 2], False),
        ("1", 1, False),
    ],
)
def test_values_are_equal_as_json_has_them(one: object, other: object, *, equal: bool) -> None:
    assert same(one, other) is equal


def test_steps_are_whole_and_hand_state_and_queue_on() -> None:
    first, expected = step("timed-041")
    second, _ = step("timed-041", 1)
    assert second["timedState"] == expected["timedState"]
    assert len(first["settings"]) == 14
    book = next(iter(first["books"].values()))
    assert list(book["entries"]["0"])[:3] == ["uid", "key", "keysecondary"]
    assert {"trigger", "scenario"} <= first["globalScanData"].keys()
    assert "expected" not in first


def test_wrong_answers_are_told_and_counted(run: Runner, tmp_path: Path) -> None:
    wrong = engine(tmp_path, "answer['activated'] = [*answer['activated'], 'b.森']")
    done = run("--only", "hash-", "--failures", "3", *wrong)
    assert done.code == 1
    assert done.out.count("FAIL hash-") == 3
    assert 'answered "b.\\u68ee"' in done.out
    assert "Stopped after 3 failures" in done.out
    assert done.last[:4] == ["all", "0", "of", "3"]


@pytest.mark.parametrize(
    ("body", "told", "timeout"),
    [
        ("answer = {'error': 'too hard'}", "engine error: too hard", "60"),
        ("print('森', flush=True)", "the answer is not JSON", "60"),
        ("answer = [1]", "the answer is not a JSON object", "60"),
        ("sys.exit(3)", "the command ended without an answer", "60"),
        ("import time; time.sleep(60)", "no answer within 1 s", "1"),
    ],
)
def test_engine_that_does_not_answer_fails_the_case(
    run: Runner, tmp_path: Path, body: str, told: str, timeout: str
) -> None:
    limits = ("--failures", "1", "--timeout", timeout)
    done = run("--only", "hash-00", *limits, *engine(tmp_path, body))
    assert done.code == 1
    assert told in done.out


def test_command_may_end_after_each_answer(run: Runner, tmp_path: Path) -> None:
    ending = engine(tmp_path, "print(json.dumps(answer), flush=True); sys.exit()")
    done = run("--only", "groups-069", *ending)
    assert done.code == 0, done.out


def test_command_may_read_to_the_end(run: Runner, tmp_path: Path) -> None:
    script = tmp_path / "whole.py"
    script.write_text(
        f"import json, sys\nsys.path.insert(0, {str(HERE)!r})\n"
        "from lorewell_engine import answer_to\n"
        "print(json.dumps(answer_to(json.load(sys.stdin))))\n",
        encoding="utf-8",
    )
    done = run("--one-shot", "--only", "groups-069", sys.executable, script)
    assert done.code == 0, done.out


class Service(BaseHTTPRequestHandler):
    """Our engine behind an address; /broken does not work."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(answer_to(asked)).encode()
        self.send_response(200 if self.path == "/scan?x=1" else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_address_can_be_asked(run: Runner) -> None:
    with serving() as url:
        assert run("--only", "hash-", "--url", f"{url}/scan?x=1").code == 0
        broken = run("--only", "hash-", "--url", f"{url}/broken", "--failures", "1")
    assert broken.code == 1
    assert "status 500" in broken.out
    gone = run("--only", "hash-", "--url", f"{url}/scan", "--failures", "1")
    assert gone.code == 1
    assert "no answer: " in gone.out


@pytest.mark.parametrize(
    "arguments",
    [[], ["--url", "http://127.0.0.1:1", "engine"], ["--only", "no-such-case", "engine"]],
)
def test_what_can_not_be_played_ends_with_2(run: Runner, arguments: list[str]) -> None:
    assert run(*arguments).code == 2


def test_program_that_is_not_there_fails(run: Runner) -> None:
    done = run("--only", "hash-", "--failures", "1", "--", "no-such-engine")
    assert done.code == 1
    assert "can't be started" in done.out
