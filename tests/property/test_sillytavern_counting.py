"""Counting as a release does: what it adds, and which setting decides."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings, strategies as st

from conform import load_defaults, steps_of
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.releases import surcharge_of
from lorewell.engine.tokens import BUNDLED, TokenCounter, counter
from lorewell.model.activate import Release, SillyTavernScene, TokenCounting
from lorewell.model.parse import parse_model
from lorewell_engine import library_of, request_of
from property.sillytavern_cases import THEMES, Case, cases

NOTHING = {"error": None, "timedState": None, "budget": None}
DEFAULTS = load_defaults()
TOKENIZERS = (*BUNDLED, "gpt-3.5-turbo-0301", "claude", "llama3", "yi", "words", "雾.json")


class Dearer:
    """Counts every text whole, and some tokens more for each that is not empty."""

    def __init__(self, counter: TokenCounter, more: int) -> None:
        self.name = "dearer"
        self._counter, self._more = counter, more

    def count(self, text: str) -> int:
        return self._counter.count(text) + self._more if text else 0


def answers(case: Case, counting: TokenCounting, tokens: TokenCounter) -> list[Any]:
    """Return what matters of every step's answer; each starts from the state before it."""
    found, state = [], case["timedState"]
    for step in case["steps"]:
        asked = {**step, "rng": 200 * step["rng"], "expected": NOTHING}
        (turn,) = steps_of({"id": "", **case, "timedState": state, "steps": [asked]}, DEFAULTS)
        request = request_of(turn.request)
        chosen = request.settings.model_copy(update={"token_counting": counting})
        request = request.model_copy(update={"settings": chosen})
        answer = activate(library_of(turn.request), request, counter=tokens)
        state = answer.timed_state
        budget = answer.budget
        found.append(
            [answer.activated, answer.events, answer.loops, budget.used, budget.overflowed]
        )
    return found


@pytest.mark.parametrize("theme", THEMES)
@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_a_surcharge_equals_a_dearer_tokenizer(theme: str, data: st.DataObject) -> None:
    """A text that is counted in pieces costs the surcharge once, as a text counted whole does."""
    case = data.draw(cases(theme))
    name = data.draw(st.sampled_from(BUNDLED))
    counting: TokenCounting = data.draw(st.sampled_from(get_args(TokenCounting)))
    more = 0 if counting == "plain" else 6
    dearer = answers(case, "plain", Dearer(counter(name), more))
    assert answers(case, counting, counter(name)) == dearer


def expected_surcharge(scene: SillyTavernScene, tokenizer: str) -> int:
    """Return the surcharge by the words of the rules: the first that is given decides."""
    if scene.message_tokens is not None:
        return scene.message_tokens
    counting = scene.settings.token_counting or f"sillytavern-{scene.settings.version}"
    if counting == "plain":
        return 0
    if tokenizer == "gpt-3.5-turbo-0301":
        return 16
    if tokenizer in BUNDLED:
        return 6
    return {"claude": 3, "llama3": 3, "yi": 2}.get(tokenizer, 0) if counting.endswith("18") else 0


@given(
    given_tokens=st.none() | st.integers(0, 20),
    counting=st.none() | st.sampled_from(get_args(TokenCounting)),
    version=st.none() | st.sampled_from(get_args(Release)),
    tokenizer=st.sampled_from(TOKENIZERS),
)
def test_the_request_comes_first_then_the_counting_then_the_version(
    given_tokens: int | None, counting: str | None, version: str | None, tokenizer: str
) -> None:
    chosen = {"token_counting": counting, **({} if version is None else {"version": version})}
    document = {"context_tokens": 100, "message_tokens": given_tokens, "settings": chosen}
    scene = parse_model(SillyTavernScene, document)
    assert surcharge_of(scene, tokenizer).tokens == expected_surcharge(scene, tokenizer)
