"""What the code's shape promises: small modules, layers, documented names, a lock without hosts."""

import ast
import inspect
import re
from collections import defaultdict
from pathlib import Path

import pytest

import lorewell

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "lorewell"
MAX_LINES = 500
TABLES_OF_DATA: frozenset[str] = frozenset()  # paths under src/lorewell, such as "model/table.py"


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_modules_are_short() -> None:
    modules = {path.relative_to(SOURCES).as_posix(): path for path in SOURCES.rglob("*.py")}
    assert modules
    assert modules.keys() >= TABLES_OF_DATA, "an exempt module is gone"
    too_long = {
        name: lines
        for name, path in modules.items()
        if name not in TABLES_OF_DATA and (lines := line_count(path)) > MAX_LINES
    }
    assert too_long == {}


def test_public_class_names_are_unique() -> None:
    found = defaultdict(list)
    for path in SOURCES.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(SOURCES).as_posix())
    assert len(found) > 100
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


@pytest.mark.parametrize("name", sorted(lorewell.__all__))
def test_public_name_is_documented(name: str) -> None:
    value = getattr(lorewell, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        own = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
        assert own
        assert own.strip()


def test_locks_name_no_hosts_and_agree() -> None:
    service, everything = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert "://" not in service + everything
    pins = [
        set(re.findall(r"^[^\s#]+==[^\s;]+", lock, re.MULTILINE)) for lock in (service, everything)
    ]
    assert pins[0] < pins[1]
