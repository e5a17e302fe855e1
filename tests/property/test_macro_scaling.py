"""Macros take time in proportion to the text, whatever it nests; no text is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from growth import MOST, growth
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.steps import Steps
from macro_texts import macros_for
from world_info import library, request

ENGINES = ("new", "old")
# What is repeated, and what closes as many.
HOSTILE = {
    "braces": ("{", ""),
    "closing braces": ("}", ""),
    "openings": ("{{", ""),
    "blank openings": ("{{ ", ""),
    "named openings": ("{{a", ""),
    "names with blanks": ("{{a ", ""),
    "nest": ("{{reverse::", "}}"),
    "nest of unknown": ("{{x:: {{y}} ", "}}"),
    "arguments": ("::", ""),
    "open list": ("{{random::a::", ""),
    "pairs": ("{{if user}}", "{{/if}}"),
    "open pairs": ("{{if user}}{{/x}}", ""),
    "crossed pairs": ("{{a}}{{b}}{{/a}}{{/b}}", ""),
    "end tags": ("{{/if}}", ""),
    "branches": ("{{if user}}a{{else}}", "{{/if}}"),
    "comments": ("{{//}}", "{{///}}"),
    "short forms": ("{{.a || ", "}}"),
    "set": ("{{setvar::a:{{setvar::b::", ""),
    "banned": ('{{banned "', ""),
    "banned and closed": ('{{banned "a"}}', ""),
    "reverse": ("{{reverse:}", ""),
    "differences": ("{{timeDiff::", ""),
    "line breaks": ("\n", "{{trim}}"),
    "signs": ("<USER><", ">"),
    "escapes": ("\\{", "\\}"),
    "added": ("{{addvar::a::b}}", ""),
    "picks": ("😀{{pick::a::b}}", ""),
    "card": ("{{description}}", ""),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", HOSTILE)
def test_time_is_in_proportion_to_the_text(shape: str, engine: str) -> None:
    opening, closing = HOSTILE[shape]

    def run(text: str) -> None:
        steps = Steps(10**12, max_chars=10**12)
        card = {"user": "Tom", "char": "Mira", "description": "{{user}} has {{char}}"}
        macros_for(engine, steps=steps, macros=card).expand(text, None, "")

    assert growth(lambda size: "a{{user}}" + opening * size + closing * size, run, 150) < MOST


def uses(macro: str) -> dict[str, Any]:
    return {"key": ["gate"], "content": macro}


# Every text that goes through macros: an entry and members of the request that hold it.
PLACES: dict[str, Callable[[str], tuple[dict[str, Any], dict[str, Any]]]] = {
    "key": lambda text: ({"key": [f"{text}#"]}, {}),
    "regex key": lambda text: ({"key": [f"/{text}#/"]}, {}),
    "secondary key": lambda text: ({"key": ["gate"], "keysecondary": [f"{text}#"]}, {}),
    "content": lambda text: (uses(text), {}),
    "prompt": lambda text: (uses(""), {"prompts": [{"name": "p", "value": text}]}),
    "note": lambda text: (uses(""), {"authors_note": {"value": text, "scan": True}}),
    "card": lambda text: (uses("{{description}}"), {"macros": {"description": text}}),
    "variable": lambda text: (uses("{{getvar::v}}"), {"variables": {"local": {"v": text}}}),
    "message": lambda text: (
        uses("{{lastMessage}}"),
        {"macros": {"messages": [{"content": text, "role": "user"}]}},
    ),
    "macro of an extension": lambda text: (uses("{{mood}}"), {"macros": {"extra": {"mood": text}}}),
    "outlet": lambda text: (
        uses("{{outlet::o}}"),
        {"prompts": [{"name": "customWIOutlet_o", "value": text, "scan": False}]},
    ),
}
NESTS = ("openings", "nest", "open pairs")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("place", PLACES)
def test_a_turn_takes_time_in_proportion_to_a_hostile_text(place: str, engine: str) -> None:
    def make(size: int) -> Callable[[], object]:
        text = "".join(
            size * opening + size * end for opening, end in (HOSTILE[nest] for nest in NESTS)
        )
        entry, members = PLACES[place](text)
        settings = {"macro_engine": engine, "expand_when_placed": True}
        book, asked = library({"1": entry}), request(["the gate"], settings=settings, **members)
        steps = Steps(10**12, max_chars=10**12)
        return lambda: activate(book, asked, steps=steps)

    assert growth(make, lambda run: run(), 100) < MOST


@pytest.mark.parametrize("engine", ENGINES)
def test_millions_of_braces_take_a_moment(engine: str) -> None:
    """They are text: nothing is expanded, and few steps are spent."""
    for text in ("{" * 1_000_000, "{{" + "}" * 1_000_000, "{{{}}}" * 30_000):
        macros = macros_for(engine)
        assert macros.expand(text, "book.0", "/content") == text
        assert macros.state.steps.spent < len(text) // 5


PIECES = (
    *("{{", "}}", "{", "}", "::", ":", "|", "!", "/", "#", "//", " ", "\n", "\\", "<USER>", "a"),
    *(
        "if ",
        "else",
        "user",
        "reverse",
        "setvar::k::",
        "getvar::k",
        "random::",
        "pick::",
        "roll:d6",
    ),
    *(".k", "$k", "=", "++", "||", "trim", "// x", "unknown", "{{user}}", "{{/if}}", "雾", "😀"),
    *("incvar::k", "time", "newline::2", "{{else}}", "{{trim}}", "description", "banned "),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@given(text=TEXTS, engine=st.sampled_from(ENGINES))
def test_any_text_expands_the_same_way_twice(text: str, engine: str) -> None:
    first, second = (macros_for(engine) for _ in range(2))
    expanded = first.expand(text, "book.0", "/content")
    assert expanded == second.expand(text, "book.0", "/content")
    assert first.state.variables.to_json() == second.state.variables.to_json()
    assert first.warnings == second.warnings
    for warning in first.warnings:
        if warning.span is not None:
            start, end = warning.span
            assert 0 <= start < end <= len(text)
            assert text[start:end].startswith(("{{", "<"))
