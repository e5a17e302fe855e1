"""Text that attacks terminals and logs, in every string of a model; and a terminal to look at."""

from __future__ import annotations

import inspect
import os
import pty
import re
import sys
import threading
import tty
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

import pytest
from pydantic import TypeAdapter, ValidationError

from lorewell.cli import main as program
from lorewell.client import LorewellClient
from lorewell.client.calls import ClientCall
from lorewell.model.plain import plain
from program import Done, Lorewell

MARKUP = "[/] [red]r[/red] [link=https://evil.example]l[/link] :smile:"
CONTROLS = (
    "\x1b[2J\x1b[5;38;5;123m\x1b]8;;https://evil.example\x1b\\\x1b]52;c;ZXZpbA==\x07\x1bPq\x9b2J"
    "\x9d0;t\x9c\x08\x7f\r\n\x0b\x0c\x85"
)
UNSEEN = "\u2028\u2029\u202e\u2066\u200f\u061c\u200b\u2060\ufeff\xad\u3164\ufe0f\U000e0041"
MILD = f"{MARKUP}{UNSEEN}"
HOSTILE = f"{MARKUP}{CONTROLS}{UNSEEN}"
# A string takes the first of these that its field allows.
_TEXTS = (
    HOSTILE,
    MILD,
    "[/]",
    "x",
    "00000000-0000-4000-8000-000000000001",
    "2026-01-01T00:00:00Z",
    "sha256:" + "0" * 64,
    "0" * 64,
    "/x",
)
# What no text may be: an outlet shows its name, lists of ids and pages have an end, and a prompt
# gives no scene of one turn.
_CHOSEN: Mapping[str, Any] = {
    "position": "outlet",
    "requires": [],
    "next_cursor": None,
    "scene": {"persona": HOSTILE},
}
# What a terminal gets from ourselves: styles, and the cursor of a bar.
_OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|2K|[0-9]*A)|\r")
_HOSTILE_STYLE = "\x1b[5;38;5;123m"

Leaf = tuple[str | int, ...]


def hostile(kind: Any, **chosen: Any) -> Any:
    """Return a JSON document of a type: as hostile as each of its strings may be.

    Args:
        kind: a model, or anything that pydantic validates.
        chosen: what members of these names hold, wherever they are.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    maker = _Maker(adapter.json_schema(), {**_CHOSEN, **chosen})
    while True:
        document = maker.make()
        try:
            adapter.validate_python(document)
        except ValidationError as error:
            for each in error.errors():
                maker.tame(each["loc"])
        else:
            return document


class _Maker:
    def __init__(self, schema: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
        self._schema, self._chosen = schema, chosen
        self._levels: dict[Leaf, int] = {}

    def make(self) -> Any:
        return self._value(self._schema, ())

    def tame(self, loc: tuple[str | int, ...]) -> None:
        fitting = [leaf for leaf in self._levels if _is_in(leaf, loc)]
        below = [leaf for leaf in self._levels if leaf[: len(loc)] == loc]
        leaves = [max(fitting, key=len)] if fitting else below
        assert leaves, (loc, [*self._levels])
        for leaf in leaves:
            self._levels[leaf] += 1
            assert self._levels[leaf] < len(_TEXTS), leaf

    def _value(self, schema: Mapping[str, Any], at: Leaf) -> Any:
        if at and at[-1] in self._chosen and schema.get("type") != "integer":
            return self._chosen[str(at[-1])]
        if "$ref" in schema:
            return self._value(self._schema["$defs"][schema["$ref"].rpartition("/")[2]], at)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return self._value(next(each for each in choices if each.get("type") != "null"), at)
        fixed = [schema["const"]] if "const" in schema else schema.get("enum")
        return fixed[0] if fixed else self._made(schema, at)

    def _made(self, schema: Mapping[str, Any], at: Leaf) -> Any:
        match schema.get("type"):
            case "string":
                text = _TEXTS[self._levels.setdefault(at, 0)]
                return text[: schema.get("maxLength", len(text))]
            case "integer" | "number":
                return max(1, schema.get("minimum", 1))
            case "boolean":
                return True
            case "array":
                parts = schema.get("prefixItems") or [schema.get("items", {})]
                return [self._value(part, (*at, n)) for n, part in enumerate(parts)]
            case "object" if "properties" in schema:
                members = schema["properties"].items()
                return {name: self._value(member, (*at, name)) for name, member in members}
            case _:
                member = schema.get("additionalProperties")
                known = member if isinstance(member, dict) else {}
                return {MILD: self._value(known or {"type": "string"}, (*at, MILD))}


def _is_in(leaf: Leaf, loc: tuple[str | int, ...]) -> bool:
    """Return whether the steps to a leaf are among those of an error, in their order."""
    rest = iter(loc)
    return all(step in rest for step in leaf)


def send(_client: LorewellClient, call: ClientCall[Any]) -> Any:
    """Answer a call as a hostile service would; stands in for `LorewellClient.send`."""
    kind = inspect.getclosurevars(call.read).nonlocals.get("kind")
    if kind is None:
        return call.read(b"")
    return kind.model_validate(hostile(kind, status="failed", usable=False))


class Terminal(Lorewell):
    """Runs the program on a terminal; what it prints is all in `out`."""

    def __call__(self, *args: str | os.PathLike[str]) -> Done:
        self.monkeypatch.setenv("TERM", "xterm-256color")
        master, slave = pty.openpty()
        tty.setraw(slave)
        seen: list[bytes] = []
        reader = threading.Thread(target=lambda: seen.extend(_pieces(master)))
        reader.start()
        streams: list[TextIO] = []
        kept = [os.dup(fd) for fd in (1, 2)]
        try:
            for fd, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(slave, fd)
                stream = open(fd, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
                streams.append(stream)
                self.monkeypatch.setattr(sys, name, stream)
            self.monkeypatch.setattr(sys, "argv", ["lorewell", *map(os.fspath, args)])
            with pytest.raises(SystemExit) as ended:
                program.main()
        finally:
            for stream in streams:
                stream.close()
            for fd, old in zip((1, 2), kept, strict=True):
                os.dup2(old, fd)
                os.close(old)
            os.close(slave)
            reader.join()
            os.close(master)
        code = ended.value.code
        return Done(code if isinstance(code, int) else 0, b"".join(seen).decode(), "")


def _pieces(master: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(master, 65_536)
        except OSError:  # nobody has the other side any more
            return
        if not piece:
            return
        yield piece


def check_shown(text: str) -> None:
    """Check that nothing hostile is in what the program printed."""
    assert _HOSTILE_STYLE not in text
    for line in _OURS.sub("", text).split("\n"):
        assert line == plain(line), repr(line)
    assert "😄" not in text  # :smile: as Rich has it
    assert "Traceback" not in text
