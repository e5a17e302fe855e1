"""Long campaigns: `python3 dev.py deep` runs them; a plain run of all tests does not come here.

What they measure is printed below the dots, when all are done, and meanwhile added to
`build/figures.txt`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

_KEPT_IN = Path(__file__).resolve().parents[2] / "build" / "figures.txt"
_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that keeps a measured figure for the end of the run."""
    lines = request.config.stash.setdefault(_FIGURES, [])

    def keep(text: str) -> None:
        lines.append(f"{request.node.name}: {text}")
        _KEPT_IN.parent.mkdir(exist_ok=True)
        with _KEPT_IN.open("a", encoding="utf-8") as kept:
            kept.write(f"{lines[-1]}\n")

    return keep


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    lines = config.stash.get(_FIGURES, [])
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: object) -> str:
    """Return the URL of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/lorewell.db"
    make: Callable[[], str] = request.getfixturevalue("make_database")
    return make()
