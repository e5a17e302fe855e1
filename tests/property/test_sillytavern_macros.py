"""Both macro engines agree with their contract in a slow, literal form, on random nests of macros.

The oracle counts for something only because it passes the golden cases of macros it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st

from conform import ALL_CASES, load_cases
from lorewell.engine.sillytavern.macros import Macros
from macro_texts import macros_for
from property import sillytavern_macros as oracle

DEEP = settings.get_current_profile_name() == "deep"
EXAMPLES = 10_000 if DEEP else settings().max_examples  # for each engine
ENGINES: dict[str, Callable[[str, oracle.Values], str]] = {
    "new": oracle.expand,
    "old": oracle.expand_old,
}
NAMES = {"user": "Tom", "char": "雾"}
CARD = {
    "description": " {{char}} of {{user}}\r\n",
    "persona": "{{incvar::c}} {{description}}",
    "scenario": "{{random::rain::sun}} {{if .a}}x{{/if}}",
    "personality": "<BOT> \\{x\\}",
}
VARIABLES: dict[str, dict[str, Any]] = {
    "local": {"a": 5, "b": "007", "l": '["x",1]', "t": "{{user}}", "z": "0", "e": ""},
    "global": {"a": " 8 ", "g": "\\{y"},
}
DRAWS = tuple(each / 7 for each in range(7)) * 60

WORDS = st.sampled_from(
    (
        *(
            "a",
            "b",
            "1",
            "0",
            "-2",
            "2d6",
            "雾",
            "😀",
            " ",
            "  ",
            "\n",
            "\r\n",
            "\u3000",
            ",",
            ":",
            "|",
        ),
        *(
            "!",
            "x y",
            "\\{",
            "\\}",
            "\\",
            "<USER>",
            "<bot>",
            "<GROUP>",
            "off",
            "user",
            ".a",
            "$a",
            "{",
        ),
        *("{{else}}", "{{trim}}", "{{user}}", "{{ char }}", "{{description}}", "{{persona}}"),
        *("{{scenario}}", "{{personality}}", "{{newline}}", "{{// note}}", "{{.a}}", "{{$a++}}"),
        *("{{mood}}", "{{user;x}}", "{{original}}", "{{time_UTC+x}}", "{{.a extra}}", "{{.b --}}"),
        *("{{setvar::a::1}}", "{{addvar::l::y}}", "{{incvar::l}}", "{{getvar::b}}", "{{roll:2d6}}"),
    )
)
NESTING = (
    *("reverse", "newline", "space", "trim", "random", "roll", "//", "mood", "user", "noop", "if"),
    *("setvar::k", "addvar::b", "getvar", "incvar", "hasvar", "getglobalvar", "setglobalvar::a"),
    *("comment", "setvar", "description"),
)
OPERATORS = ("=", "+=", "-=", "||", "??", "||=", "??=", "==", "!=", ">", "<=")
SEPARATORS = st.sampled_from(("::", "::", ":", " ", " :: "))


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.lists(inner, max_size=3).map("".join)
    name = st.sampled_from(NESTING)
    variable = st.sampled_from((".a", ".b", ".new", "$a", ". l"))
    return st.one_of(
        st.builds("{{{{{}{}{}}}}}".format, name, SEPARATORS, joined),
        st.builds("{{{{{}::{}::{}}}}}".format, name, joined, joined),
        st.builds("{{{{{0}}}}}{1}{{{{/{0}}}}}".format, name, joined),
        st.builds("{{{{#{0}}}}}{1}{{{{/ {0}}}}}".format, name, joined),
        st.builds("{{{{if {}}}}}{}{{{{else}}}}{}{{{{/if}}}}".format, joined, joined, joined),
        st.builds("{{{{{} {} {}}}}}".format, variable, st.sampled_from(OPERATORS), joined),
        joined,
    )


TEXTS = st.recursive(WORDS, nested, max_leaves=12)


def both(text: str, engine: str) -> tuple[list[Any], list[Any]]:
    """Return what oracle and engine make of a text: result, variables and number of draws.

    A text that exceeds a limit of the engine, which the contract does not have, is left out.
    """
    used = iter(range(len(DRAWS)))
    variables = {".": {**VARIABLES["local"]}, "$": {**VARIABLES["global"]}}
    values = oracle.Values(NAMES, CARD, variables, lambda: DRAWS[next(used)])
    told = ENGINES[engine](text, values)
    macros = macros_for(
        engine, macros={**NAMES, **CARD}, variables=VARIABLES, draws=DRAWS, context_tokens=1
    )
    found = expanded(macros, text)
    assume(all(warning.code != "macro_too_large" for warning in macros.warnings))
    state = macros.state.variables
    wanted = [told, variables["."], variables["$"], next(used)]
    return wanted, [found, state.local.values, state.shared.values, macros.state.draws.used]


def expanded(macros: Macros, text: str) -> str:
    if macros.watches_all or any(sign in text for sign in ("{{", "<", "\\")):
        return macros.expand(text, "book.0", "/content")
    return text


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=EXAMPLES)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_engine_agrees_with_the_oracle(engine: str, texts: Sequence[str]) -> None:
    wanted, found = both("".join(texts), engine)
    assert found == wanted


def single(case: dict[str, Any]) -> bool:
    """Return whether a golden case is about one constant text, in macros that the oracle knows."""
    entries = [e for book in case["books"].values() for e in book["entries"].values()]
    inputs = case.get("macroInputs")
    return (
        inputs is not None
        and len(entries) == 1
        and len(case["steps"]) == 1
        and case["steps"][0]["expected"]["activated"] == ["book.0"]
        and set(inputs) <= {"variables"}
        and not case["settings"].keys() - {"macro_engine"}
        and "{{" not in "".join(entries[0]["key"])
        and case["feature"] in ("grammar", "blocks", "random", "variables", "old_engine")
        and "mesExamples" not in entries[0]["content"]
        and case["attach"].get("character") is not None
    )


GOLDEN = [case for case in load_cases(*ALL_CASES) if single(case)]
# Macros that the oracle does not know.
UNKNOWN = ("timeDiff", "outlet", "deletevar", "varkey", "varindex", "exists", "delete", "flush")
UNKNOWN += ("char_version", "charVersion", "greeting", "banned", "getvarkey", "setvarkey")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case["id"])
        for case in GOLDEN
        if not any(word in str(case["books"]) for word in UNKNOWN)
    ],
)
def test_oracle_passes_the_golden_cases(case: dict[str, Any]) -> None:
    (step,) = case["steps"]
    given = case["macroInputs"].get("variables", {"local": {}, "global": {}})
    variables = {".": {**given["local"]}, "$": {**given["global"]}}
    draws = iter(step["rng"])
    values = oracle.Values(case["names"], case["card"], variables, lambda: next(draws))
    (entry,) = case["books"]["book"]["entries"].values()
    engine = case["settings"]["macro_engine"]
    wanted = step["expected"]
    assert ENGINES[engine](entry["content"], values) == wanted["worldInfoBefore"]
    assert {"local": variables["."], "global": variables["$"]} == wanted["variables"]
    assert next(draws, None) is None
