"""Macros take time in proportion to the text, whatever it nests; no text is an error."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from growth import MOST, growth
from lorewell.engine.steps import Steps
from macro_texts import macros_for

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
