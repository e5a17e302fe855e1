"""Short ways through the policy `sillytavern` against the long ones that they stand for."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from growth import MOST, growth
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.budget import LoopContents, TextCounter
from lorewell.engine.sillytavern.hashing import cyrb53, hash_all
from lorewell.engine.sillytavern.javascript import json_text
from lorewell.engine.sillytavern.keys import SillyTavernKey
from lorewell.engine.sillytavern.scan import Scan
from lorewell.engine.sillytavern.sources import Attached, EntryLocation, Library
from lorewell.engine.sillytavern.world import compile_world
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import BUNDLED, count_tokens, counter
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.parse import parse_model
from macro_texts import expand, macros_for

PIECES = ["灯塔", "море", "İs", "ΟΔΟΣ", "lamp", "Lamp", "s", "'s", "/", "//", ".", "\n", " ", "\t"]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([*PIECES, "1", "ก็", "é", "😀", "\u200b", "\x85", "\r", "_", "\u3000"]),
        st.text(),
    ),
    max_size=6,
).map("".join)
WORDS = st.lists(st.sampled_from(PIECES), max_size=5).map(" ".join)
FLAG = st.booleans()


@pytest.mark.parametrize("encoding", BUNDLED)
@given(contents=st.lists(TEXTS, max_size=6))
def test_pieces_add_up_to_the_whole(encoding: str, contents: list[str]) -> None:
    plain = [content.encode("utf-8", "replace").decode() for content in contents]
    tokens = counter(encoding)
    whole = "".join(content + "\n" for content in plain)
    assert TextCounter(tokens, 0, Steps()).begin(plain).tokens == tokens.count(whole)


@pytest.mark.parametrize("encoding", BUNDLED)
@given(loops=st.lists(st.lists(TEXTS, max_size=3), max_size=4))
def test_text_that_grows_at_its_front_costs_what_the_whole_costs(
    encoding: str, loops: list[list[str]]
) -> None:
    tally = TextCounter(counter(encoding), 7, Steps())
    charged, whole = LoopContents(tally), list[str]()
    for contents in loops:
        plain = [content.encode("utf-8", "replace").decode() for content in contents]
        if any(plain):
            charged.put_before(plain)
            whole = [*plain, *whole]
        assert charged.tokens == tally.begin(whole).tokens


SENTENCES = st.lists(
    st.one_of(
        TEXTS, st.sampled_from(["lamp", " oil", "don't", "灯塔", "。", "，", "あア", ".\n/", "  x"])
    ),
    max_size=20,
).map("".join)


@pytest.mark.parametrize("encoding", BUNDLED)
@given(text=SENTENCES)
def test_pieces_of_a_long_text_have_the_tokens_of_the_whole(encoding: str, text: str) -> None:
    plain = text.encode("utf-8", "replace").decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lorewell.engine.tokens._PIECE_CHARS", 3)
        found = count_tokens(counter(encoding), plain, Steps())
    assert found == counter(encoding).count(plain)


MACROS = st.lists(
    st.sampled_from(
        [
            *(
                "\n",
                "\r\n",
                "\r",
                "{{trim}}",
                "{{TRIM}}",
                "{{reverse:",
                "}}",
                "}",
                "{",
                "{{",
                "{{//",
            ),
            *("a", "b ", "{{user}}", "<bot>", "{{persona}}", "{{newline}}", "{{noop}}", "\u2028"),
        ]
    ),
    max_size=12,
).map("".join)


def expanded(text: str, user: str, persona: str | None) -> str:
    """Return a text with its macros expanded, by one plain pattern after the other."""
    passes = [
        (r"<bot>", lambda _: "C"),
        (r"\{\{newline\}\}", lambda _: "\n"),
        (r"(?:\r?\n)*\{\{trim\}\}(?:\r?\n)*", lambda _: ""),
        (r"\{\{noop\}\}", lambda _: ""),
        (r"\{\{persona\}\}", lambda m: m[0] if persona is None else persona),
        (r"\{\{user\}\}", lambda _: user),
        (r"\{\{reverse:(.+?)\}\}", lambda m: m[1][::-1]),
        (r"\{\{//[\s\S]*?\}\}", lambda _: ""),
    ]
    for pattern, value in passes:
        text = re.sub(pattern, value, text, flags=re.IGNORECASE)
    return text


@given(text=MACROS, user=MACROS.map(lambda text: text[:500]), persona=MACROS)
def test_old_engine_expands_as_by_plain_patterns(text: str, user: str, persona: str) -> None:
    macros = {"user": user, "char": "C", "persona": persona}
    card = expanded(persona.strip(), user, None).replace("\r", "")
    assert expand(text, "old", macros=macros) == expanded(text, user, card)


@pytest.mark.parametrize("piece", ["\n", "{{reverse:", "{{//", "{{user}}", "\r\n{{trim}}"])
def test_macros_take_time_in_proportion_to_the_text(piece: str) -> None:
    macros = macros_for("old", steps=Steps(10**9, max_chars=10**9))

    def run(text: str) -> None:
        macros.expand(text, None, "")

    assert growth(lambda size: "{{" + piece * size, run, 5_000) < MOST


@given(texts=st.lists(st.text(st.characters(codec=None)), max_size=20))
def test_hashes_side_by_side_are_those_one_by_one(texts: list[str]) -> None:
    assert hash_all(texts) == [cyrb53(text) for text in texts]


ENTRIES = st.fixed_dictionaries(
    {
        "key": st.lists(WORDS, max_size=3),
        "keysecondary": st.lists(WORDS, max_size=2),
        "selective": FLAG,
        "selectiveLogic": st.sampled_from([0, 1, 2, 3, None]),
        "content": WORDS,
        "order": st.integers(0, 3),
        "constant": st.sampled_from([False, False, True]),
        "disable": st.sampled_from([False, False, False, True]),
        "caseSensitive": st.sampled_from([None, True, False]),
        "matchWholeWords": st.sampled_from([None, True, False]),
        "scanDepth": st.sampled_from([None, 0, 1, 3]),
        "excludeRecursion": FLAG,
        "preventRecursion": FLAG,
        "delayUntilRecursion": st.sampled_from([0, 0, 1, 2]),
        "group": st.sampled_from(["", "", "g", "g, h", "7"]),
        "useGroupScoring": st.sampled_from([None, True]),
        "probability": st.sampled_from([100, 100, 50]),
        "useProbability": st.sampled_from([True]),
        "matchScenario": FLAG,
        "position": st.just(0),
        "sticky": st.sampled_from([None, 2]),
        "cooldown": st.sampled_from([None, 2]),
    }
)
REQUESTS = st.fixed_dictionaries(
    {
        "settings": st.fixed_dictionaries(
            {
                "world_info_case_sensitive": FLAG,
                "world_info_match_whole_words": FLAG,
                "world_info_min_activations": st.sampled_from([0, 3]),
                "world_info_budget": st.just(100),
            }
        ),
        "chat": st.lists(WORDS.map(lambda text: {"content": text}), max_size=4),
        "scan_texts": WORDS.map(lambda text: {"scenario": text}),
        "context_tokens": st.sampled_from([20, 10_000]),
        "seed": st.sampled_from("abc"),
    }
)


def answer(library: Library, request: SillyTavernRequest, explain: str) -> list[object]:
    given = activate(library, request.model_copy(update={"explain": explain}))
    return [given.activated, given.world_info_before, given.timed_state, given.draws_used]


@given(entries=st.lists(ENTRIES, max_size=5), document=REQUESTS)
def test_entries_that_are_passed_over_change_nothing(
    entries: list[dict[str, Any]], document: dict[str, Any]
) -> None:
    """Only what has a key in the texts, or needs none, is gone through; all might as well be."""
    listed = [{"uid": uid, **entry} for uid, entry in enumerate(entries)]
    library = Library([Attached("global", compile_world("b", listed))])
    request = parse_model(SillyTavernRequest, document)
    short = answer(library, request, "none")
    assert answer(library, request, "full") == short
    every_location = set(map(EntryLocation, range(len(listed)), [0] * len(listed)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scan, "_find_keyless", lambda _: every_location)
        assert answer(library, request, "full") == short
        # A key that no automaton knows is looked for in the joined text.
        patch.setattr(
            "lorewell.engine.sillytavern.scan_entry.read_key",
            lambda text: SillyTavernKey(text, None),
        )
        plain = Library([Attached("global", compile_world("b", listed))])
        long = answer(plain, request, "none")
        assert [entry.id for entry in long[0]] == [entry.id for entry in short[0]]
        assert long[1:] == short[1:]


def test_json_text_is_that_of_javascript() -> None:
    given = {"b": 1.0, "2": -0.0, "1": 1e21, "x": [None, True, "\u2028\ud800\x7f/\x1f"]}
    expected = '{"1":1e+21,"2":0,"b":1,"x":[null,true,"\u2028\\ud800\x7f/\\u001f"]}'
    assert json_text(given) == expected
