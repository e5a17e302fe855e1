"""World info by hand: entries as SillyTavern's template has them, scanned in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conform import load_defaults
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.world import compile_world
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.activated import SillyTavernResponse
from lorewell.model.parse import parse_model

# Every field of a new entry that matters to a scan, with its default.
TEMPLATE: Mapping[str, Any] = load_defaults()["entry"]

Entries = Mapping[str, Mapping[str, Any]]


def expand(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with the template's defaults, in the order of the template."""
    return {"uid": entry["uid"], **TEMPLATE, **entry}


def library(entries: Entries, *, name: str = "b") -> Library:
    """Return one global book; the entries by uid."""
    listed = [expand({"uid": uid, **entry}) for uid, entry in entries.items()]
    return Library([Attached("global", compile_world(name, listed))])


def request(chat: Sequence[str | dict[str, str]], **members: Any) -> SillyTavernRequest:
    """Return a request with a large context and a chat, oldest first, lines with names or not."""
    lines = [{"content": line} if isinstance(line, str) else line for line in chat]
    return parse_model(SillyTavernRequest, {"chat": lines, "context_tokens": 100_000, **members})


def scan(
    entries: Entries, chat: Sequence[str | dict[str, str]] = (), **members: Any
) -> SillyTavernResponse:
    """Return what a scan of one book answers."""
    return activate(library(entries), request(chat, **members))


def names(answer: SillyTavernResponse) -> list[str]:
    """Return the uids of the active entries, in the order of activation."""
    return [str(entry.uid) for entry in answer.activated]


def reasons(answer: SillyTavernResponse) -> dict[str, str]:
    """Return why each entry of the book is active or not, by uid."""
    return {verdict.id.removeprefix("b."): verdict.reason for verdict in answer.verdicts}
