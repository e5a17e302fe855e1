"""Tokenizers that requests name, and how each release of SillyTavern counts with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from lorewell.errors import ValidationFailedError
from service import Api, Json, places, serving

ACTIVATE = "/v1/sillytavern/activate"
WORDS = {"uid": 0, "constant": True, "content": "the lamp is lit"}
BOOK = {"name": "雾隐渡", "entries": {"0": WORDS}}


@pytest.fixture(name="path")
def path_fixture(tmp_path: Path) -> Path:
    """A tokenizer of words, as a file."""
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))  # noqa: S106  a word, no password
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    path = tmp_path / "分词器.json"
    words.save(str(path))
    return path


@pytest.fixture(name="named")
def named_fixture(database: str, path: Path) -> Iterator[Api]:
    """A service with files for two tokenizers."""
    files = (f"claude={path}", f"yi={path}")
    with serving(database_url=database, tokenizer_files=files) as api:
        yield api


def budget(api: Api, **members: Any) -> Json:
    body = {"books": [BOOK], "context_tokens": 8000, **members}
    answer = api("POST", ACTIVATE, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["budget"]


def test_a_request_names_its_tokenizer(named: Api) -> None:
    plain = {"token_counting": "plain"}
    named_and_used = {
        None: ("cl100k_base", 5),
        "gpt-4o": ("o200k_base", 5),
        "gpt-3.5-turbo-0301": ("gpt-3.5-turbo-0301", 5),
        "llama3": ("llama3", 5),
        "anthropic/claude-3-opus": ("claude", 4),
        "yi": ("yi", 4),
    }
    for name, expected in named_and_used.items():
        found = budget(named, tokenizer=name, settings=plain)
        assert (found["tokenizer"], found["used"]) == expected


@pytest.mark.parametrize("name", ["gemma", "gpt2", "/etc/passwd", "claude=/etc/passwd", "模型"])
def test_a_tokenizer_that_the_service_lacks_is_refused(api: Api, name: str) -> None:
    scene = {"books": [BOOK], "context_tokens": 8000, "tokenizer": name}
    for path in (ACTIVATE, "/v1/sillytavern/preview", "/v1/sillytavern/replay"):
        answer = api("POST", path, json=scene)
        assert (answer.status_code, places(answer)) == (422, ["/tokenizer"])


@pytest.mark.parametrize(
    ("tokenizer", "settings", "own", "extra"),
    [
        ("cl100k_base", {}, 5, 6),
        ("cl100k_base", {"version": "1.19"}, 5, 6),
        ("cl100k_base", {"version": "1.18"}, 5, 6),
        ("cl100k_base", {"token_counting": "plain"}, 5, 0),
        ("gpt-3.5-turbo-0301", {}, 5, 16),
        ("claude", {}, 4, 0),
        ("claude", {"version": "1.18"}, 4, 3),
        ("claude", {"version": "1.18", "token_counting": None}, 4, 3),
        ("claude", {"version": "1.18", "token_counting": "sillytavern-1.19"}, 4, 0),
        ("claude", {"version": "1.18", "token_counting": "plain"}, 4, 0),
        ("yi", {"token_counting": "sillytavern-1.18"}, 4, 2),
    ],
)
def test_the_releases_count_in_their_own_ways(
    named: Api, tokenizer: str, settings: Json, own: int, extra: int
) -> None:
    given = {"tokenizer": tokenizer, "settings": settings}
    assert budget(named, **given)["used"] == own + extra
    assert budget(named, **given, message_tokens=None)["used"] == own + extra
    assert budget(named, **given, message_tokens=0)["used"] == own
    assert budget(named, **given, message_tokens=9)["used"] == own + 9


def test_the_answer_names_the_rules(api: Api) -> None:
    body = {"books": [BOOK], "context_tokens": 8000, "chat": [{"content": "灯"}]}
    for path in (ACTIVATE, "/v1/sillytavern/preview", "/v1/sillytavern/replay"):
        for settings, version in ({}, "1.19.0"), ({"version": "1.18"}, "1.18.0"):
            answer = api("POST", path, json={**body, "settings": settings}).json()
            assert answer["policy_version"] == f"sillytavern/{version}"
    answer = api("POST", ACTIVATE, json={**body, "settings": {"version": "1.17"}})
    assert places(answer) == ["/settings/version"]
    answer = api("POST", ACTIVATE, json={**body, "settings": {"token_counting": "1.19"}})
    assert places(answer) == ["/settings/token_counting"]


def test_a_replay_counts_as_its_turns(named: Api) -> None:
    body = {"books": [BOOK], "context_tokens": 8000, "chat": [{"content": "灯"}]}
    body["settings"] = {"version": "1.18"}
    body["tokenizer"] = "claude-3"
    (turn,) = named("POST", "/v1/sillytavern/replay", json=body).json()["turns"]
    assert turn["budget"] == named("POST", ACTIVATE, json=body).json()["budget"]
    assert turn["budget"]["used"] == 4 + 3


def test_files_also_count_prompts_and_texts(named: Api) -> None:
    body = {"texts": ["the lamp is lit", ""], "tokenizer": "claude-3-haiku"}
    counted = {"tokenizer": "claude", "counts": [4, 0]}
    assert named("POST", "/v1/tokens/count", json=body).json() == counted
    draft = [{"kind": "input", "message": {"role": "user", "content": "the lamp"}}]
    answer = named("POST", "/v1/host/assemble", json={"draft": draft, "tokenizer": "yi-34b"})
    assert answer.json()["figures"]["tokenizer"] == "yi"


def test_the_services_own_tokenizer_may_be_a_named_file(database: str, path: Path) -> None:
    with serving(database_url=database, tokenizer=f"claude={path}") as api:
        for name in (None, "claude", "claude-3-opus"):
            assert budget(api, tokenizer=name)["tokenizer"] == "claude"
        assert budget(api, settings={"version": "1.18"})["used"] == 4 + 3


@pytest.mark.parametrize("item", ["claude", "clod=x.json", "claude=/no/such/file.json"])
def test_a_file_that_no_tokenizer_has_stops_the_start(database: str, item: str) -> None:
    with (
        pytest.raises(ValidationFailedError, match="can't be used"),
        serving(database_url=database, tokenizer_files=(item,)),
    ):
        pass
