"""Coverage-guided fuzzing of every container and format reader: minutes for each, a process each.

`python3 dev.py deep fuzz-files` runs it. LOREWELL_FUZZ_SECONDS shortens the 600 seconds of each
target; LOREWELL_FUZZ_JOBS says how many run at once, as many as there are CPUs unless told. Inputs
that broke something are left in `build/fuzz-files`, a folder for each target, and named at the end.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from deep.fuzzing.targets import TARGETS

SECONDS = int(os.environ.get("LOREWELL_FUZZ_SECONDS", "600"))
JOBS = int(os.environ.get("LOREWELL_FUZZ_JOBS", os.cpu_count() or 1))
HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
FOLDER = ROOT / "build" / "fuzz-files"
RUN = HERE.with_name("fuzzing") / "run.py"
_COVERAGE = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_DONE = re.compile(r"^Done (\d+) runs in (\d+) second", re.MULTILINE)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="there is no atheris for this system"
)


class Run(NamedTuple):
    """What fuzzing a target came to."""

    exit_code: int
    cpu_seconds: float  # fewer than the clock's on a busy machine
    log: str
    crashes: list[Path]

    def figures(self) -> str:
        done, reached = _DONE.search(self.log), _COVERAGE.findall(self.log)
        if done is None or not reached:
            return f"ended with exit code {self.exit_code}"
        coverage, features, inputs = reached[-1]
        summary = f"{done[1]} executions in {done[2]} s ({self.cpu_seconds:.0f} s of a CPU)"
        summary += f", {coverage} branches, {features} features, {inputs} inputs kept"
        return f"{summary}, {len(self.crashes)} crashes"


def fuzz(name: str) -> Run:
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    paths = [str(ROOT / "src"), str(ROOT / "tests")]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(RUN), name, str(folder), str(SECONDS)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    crashes = [path for path in folder.glob("crashes/*") if path.suffix != ".txt"]
    summary = log.read_text(encoding="utf-8", errors="replace")
    return Run(process.returncode, used.ru_utime + used.ru_stime, summary, sorted(crashes))


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Run]]]:
    """Start fuzzing all targets that were asked for, some at once."""
    asked = [item.callspec.params["name"] for item in request.session.items if item.path == HERE]
    pool = ThreadPoolExecutor(JOBS)
    yield {name: pool.submit(fuzz, name) for name in asked}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", TARGETS)
def test_any_file_is_refused_in_words_or_gives_a_whole_book(
    name: str, runs: dict[str, Future[Run]], report: Callable[[str], None]
) -> None:
    run = runs[name].result()
    report(run.figures())
    for path in run.crashes:
        report(f"broken by {path}")
    assert run.crashes == []
    assert run.exit_code == 0, run.log[-2000:]
    assert _DONE.search(run.log)
