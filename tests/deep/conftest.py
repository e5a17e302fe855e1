"""Long campaigns: `python3 dev.py deep` runs them; a plain run of all tests does not come here.

What they measure is printed below the dots, when all are done.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that keeps a measured figure for the end of the run."""
    lines = request.config.stash.setdefault(_FIGURES, [])

    def keep(text: str) -> None:
        lines.append(f"{request.node.name}: {text}")

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
