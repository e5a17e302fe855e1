"""`import lorewell` is cheap: no web, SQL or V8 package, no vocabulary, no terminal library."""

import json
import subprocess
import sys
import time

HEAVY = (
    "fastapi",
    "starlette",
    "uvicorn",
    "sqlalchemy",
    "httpx",
    "py_mini_racer",
    "numpy",
    "typer",
    "rich",
    "quicktok",
)
RUNS = 5
# Aimed at under 0.3 s; a loaded machine gets a tenfold margin.
LIMIT_S = 3.0


def run_python(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout


def best_s(code: str) -> float:
    """Return the shortest wall time of a whole interpreter run, in seconds."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run_python(code)
        times.append(time.perf_counter() - start)
    return min(times)


def test_import_loads_nothing_heavy() -> None:
    code = "import json, sys, lorewell; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.partition(".")[0] for name in json.loads(run_python(code))}
    assert "lorewell" in loaded
    assert loaded.isdisjoint(HEAVY), loaded.intersection(HEAVY)


def test_import_is_quick() -> None:
    extra_s = best_s("import lorewell") - best_s("pass")
    print(f"import lorewell: {extra_s * 1000:.0f} ms more than a bare start")
    assert extra_s < LIMIT_S
