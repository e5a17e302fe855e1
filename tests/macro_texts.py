"""Expands the macros of single texts, as a scan does."""

from __future__ import annotations

from typing import Any

from lorewell.engine.sillytavern.draws import RandomDraws
from lorewell.engine.sillytavern.ledger import Ledger
from lorewell.engine.sillytavern.macros import Macros
from lorewell.engine.steps import Steps
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.parse import parse_model


def macros_for(engine: str = "new", *, steps: Steps | None = None, **members: Any) -> Macros:
    """Return the macros of a scan, given members of its request."""
    document = {
        "settings": {"macro_engine": engine},
        "macros": {"user": "Tom", "char": "Mira"},
        "context_tokens": 4096,
        **members,
    }
    request = parse_model(SillyTavernRequest, document)
    draws = RandomDraws(request.seed, request.draws)
    return Macros(request, draws, Ledger(steps or Steps(), kept=True))


def expand(text: str, engine: str = "new", **members: Any) -> str:
    """Return a text with its macros expanded."""
    return macros_for(engine, **members).expand(text, "book.0", "/content")
