"""The context: the selected entries as one text (docs/rules/native.md §8.9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, assert_never

from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.render import CLOSING_TAG, escape_content, opening_tag
from lorewell.engine.tokens import TokenCounter
from lorewell.model.select import Wrapper

SEPARATOR: Final = "\n\n"


def wrap(tag: str | None, content: str) -> str:
    """Return one block of the context: escaped, so that content can't close its wrapper.

    Without a tag it is the content as it is.

    >>> print(wrap(opening_tag("b:1:e", ""), "</worldbook-entry>"))
    <worldbook-entry id="b:1:e" title="">
    &lt;/worldbook-entry&gt;
    </worldbook-entry>
    """
    return content if tag is None else f"{tag}\n{escape_content(content)}\n{CLOSING_TAG}"


def cost_of(tag: str | None, content: str, counter: TokenCounter) -> int:
    """Return the tokens that an entry takes in the context. Costs add up exactly (§8.8)."""
    return counter.count(wrap(tag, content) + SEPARATOR)


def tag_of(entry: CompiledEntry, wrapper: Wrapper) -> str | None:
    """Return the opening tag of an entry's block, None if it has no wrapper."""
    match wrapper:
        case "full":
            return entry.tag
        case "short":
            return opening_tag(entry.spec.id, entry.spec.title)
        case "plain":
            return None
        case never:
            assert_never(never)


class Wrapping:
    """The wrappers of the entries in one request."""

    def __init__(self, books: Sequence[CompiledBook], wrapper: Wrapper) -> None:
        """Find the ids that `short` can't tell apart."""
        self._wrapper = wrapper
        counts = Counter(name for book in books if wrapper == "short" for name in book.by_id)
        self._repeated = frozenset(name for name, count in counts.items() if count > 1)

    @property
    def is_full(self) -> bool:
        """Whether every entry has its full wrapper."""
        return self._wrapper == "full"

    @property
    def adds_up(self) -> bool:
        """Whether costs add up wherever those of full wrappers do."""
        return self._wrapper != "plain"

    def of(self, entry: CompiledEntry) -> Wrapper:
        """Return the wrapper of an entry."""
        return "full" if entry.spec.id in self._repeated else self._wrapper

    def tag(self, entry: CompiledEntry) -> str | None:
        """Return the opening tag of an entry's block, None if it has no wrapper."""
        return tag_of(entry, self.of(entry))

    def known_cost(self, book: CompiledBook, entry: CompiledEntry) -> int | None:
        """Return the cost of an entry; None if it depends on substituted values."""
        wrapper = self.of(entry)
        if wrapper == "full" or entry.template is not None:
            return entry.cost
        return book.cost_in(wrapper, entry.index)
