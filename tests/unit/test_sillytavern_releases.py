"""What a release of SillyTavern implies, and what its counting adds to a text."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.budget import TextCounter
from lorewell.engine.sillytavern.releases import PROFILES, Surcharge, surcharge_of
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import counter
from lorewell.errors import ValidationFailedError
from lorewell.model.activate import Release, SillyTavernScene, TokenCounting
from lorewell.model.parse import parse_model
from world_info import library, request, scan

LAMP = {"0": {"constant": True, "content": "the lamp is lit"}}


def scene(**members: Any) -> SillyTavernScene:
    return parse_model(SillyTavernScene, {"context_tokens": 100, **members})


class Words:
    """A tokenizer of the caller; its name is the only thing that the releases look at."""

    def __init__(self, name: str) -> None:
        self.name = name

    def count(self, text: str) -> int:
        return len(text.split())


def test_every_release_has_a_row() -> None:
    assert PROFILES.keys() == set(get_args(Release))
    for release, profile in PROFILES.items():
        assert profile.policy_version == f"sillytavern/{release}.0"
        assert profile.token_counting == f"sillytavern-{release}"


def test_the_newest_release_is_the_default() -> None:
    assert scene().settings.version == next(iter(PROFILES)) == "1.19"
    assert scan(LAMP).policy_version == "sillytavern/1.19.0"
    assert scan(LAMP, settings={"version": "1.18"}).policy_version == "sillytavern/1.18.0"


@pytest.mark.parametrize(
    ("counting", "tokenizer", "surcharge"),
    [
        *((counting, "cl100k_base", 6) for counting in ("sillytavern-1.19", "sillytavern-1.18")),
        *((counting, "o200k_base", 6) for counting in ("sillytavern-1.19", "sillytavern-1.18")),
        ("sillytavern-1.19", "gpt-3.5-turbo-0301", 16),
        ("sillytavern-1.18", "gpt-3.5-turbo-0301", 16),
        ("sillytavern-1.19", "llama3", 0),
        ("sillytavern-1.18", "llama3", 3),
        ("sillytavern-1.18", "llama", 2),
        ("sillytavern-1.18", "mistral", 2),
        ("sillytavern-1.18", "gemma", 1),
        ("sillytavern-1.18", "qwen", 0),
        ("sillytavern-1.19", "/models/tokenizer.json", 0),
        *(("plain", name, 0) for name in ("cl100k_base", "gpt-3.5-turbo-0301", "claude")),
    ],
)
def test_a_counting_adds_by_tokenizer(
    counting: TokenCounting, tokenizer: str, surcharge: int
) -> None:
    given = scene(settings={"token_counting": counting})
    assert surcharge_of(given, tokenizer) == Surcharge(surcharge)


def test_claude_cost_one_more_before_a_blank() -> None:
    extra, before_blank = surcharge_of(scene(settings={"version": "1.18"}), "claude")
    tally = TextCounter(Words("claude"), extra, Steps(), before_blank=before_blank)
    found = {text: tally.begin([text]).tokens for text in ("lamp", " lamp", "\u3000灯", "\nฟ", "")}
    assert found == {"lamp": 4, " lamp": 5, "\u3000灯": 5, "\nฟ": 5, "": 4}
    assert tally.begin().tokens == 0


def test_both_texts_cost_more_from_the_second_loop_on() -> None:
    entries = {
        "a": {"key": ["gate"], "content": "the mill"},
        "b": {"key": ["mill"], "content": "the lamp"},
    }
    plain = scan(entries, ["gate"], settings={"token_counting": "plain"})
    counted = scan(entries, ["gate"])

    def costs(answer: Any) -> list[int]:
        return [event.tokens for event in answer.events if event.kind == "added"]

    first, second = costs(plain)
    assert costs(counted) == [first + 6, second + 12]


def test_a_request_names_its_tokenizer() -> None:
    assert scan(LAMP).budget.tokenizer == "cl100k_base"
    assert scan(LAMP, tokenizer="gpt-4o").budget.tokenizer == "o200k_base"
    assert scan(LAMP, tokenizer="gpt-3.5-turbo-0301").budget.used == 5 + 16
    given = activate(library(LAMP), request([], tokenizer="gpt-4o"), counter=Words("words"))
    assert (given.budget.tokenizer, given.budget.used) == ("words", 4)


@pytest.mark.parametrize("name", ["claude", "gpt2", "/no/tokenizer.json", "claude=x.json"])
def test_a_request_names_no_file(name: str) -> None:
    with pytest.raises(ValidationFailedError, match="can't be used") as caught:
        scan(LAMP, tokenizer=name)
    assert caught.value.faults[0].pointer == "/tokenizer"


def test_counts_of_one_library_are_those_of_each_counting() -> None:
    books, tokens = library(LAMP), counter()
    for counting, used in ("plain", 5), ("sillytavern-1.19", 11), ("plain", 5):
        turn = request([], settings={"token_counting": counting})
        assert activate(books, turn, counter=tokens).budget.used == used
