"""The program `lorewell` in this process, as people and scripts meet it."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main

from lorewell.cli import main as program

# Typer makes all commands for each run, which takes longer than most commands.
typer.main.get_command = cache(typer.main.get_command)

_TERMINAL = ("FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "GITHUB_ACTIONS")


class Done(NamedTuple):
    """What a run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """The output with every run of blanks as one."""
        return " ".join(self.out.split())

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Lorewell:
    """Runs the program with its output captured, and writes files into a folder of its own."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
        *,
        columns: int = 120,
    ) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.capfd = capfd
        for name in _TERMINAL:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("COLUMNS", str(columns))

    def __call__(self, *args: str | Path) -> Done:
        self.monkeypatch.setattr(sys, "argv", ["lorewell", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            program.main()
        code = ended.value.code
        assert isinstance(code, int)
        return Done(code, *self.capfd.readouterr())

    def file(self, name: str, content: object) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    def book(self, *entries: object, name: str = "Kiln Row") -> Path:
        return self.file(f"{name}.json", {"name": name, "entries": entries})


@pytest.fixture(name="lorewell")
def lorewell_fixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Lorewell:
    return Lorewell(tmp_path, monkeypatch, capfd)
