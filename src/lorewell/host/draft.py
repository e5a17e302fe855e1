"""The draft of a prompt: the kinds of its messages, and the places for lore.

Source: docs/rules/host.md §6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lorewell.host.blocks import HostBlock
from lorewell.model.assemble import DraftKind, DraftMessage
from lorewell.model.assembled import PartKind
from lorewell.model.text import BLANK

REAL = frozenset({"chat", "input"})
TOOL_ROLES = frozenset({"tool", "function"})
# Providers treat the role `developer` like `system`.
SYSTEM_ROLES = frozenset({"system", "developer"})
_WITH_SLOTS = frozenset({"template", "character"})
_MARKER = re.compile(r"\{\{outlet::([^{}]*)\}\}")

ProviderMessage = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a message: a piece of the draft, or a block.

    Attributes:
        draft_index: index of its message in the draft; None for a block.
        span: its place in the content; None if the content is not a string.
    """

    kind: PartKind
    draft_index: int | None = None
    block: HostBlock | None = None
    span: tuple[int, int] | None = None

    def moved(self, chars: int) -> Part:
        """Return the part with its span shifted by a number of characters."""
        return replace(self, span=self.span and (self.span[0] + chars, self.span[1] + chars))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """A message of the prompt, and the parts it is made of."""

    message: ProviderMessage
    parts: tuple[Part, ...]

    @property
    def history_count(self) -> int:
        """The number of real chat messages in it."""
        return sum(part.kind in REAL for part in self.parts)


def role_of(message: ProviderMessage) -> str:
    """Return the role of a message."""
    return str(message.get("role", ""))


def text_of(message: ProviderMessage) -> str | None:
    """Return the content of a message if it is a string, else None."""
    content = message.get("content")
    return content if isinstance(content, str) else None


def spoken_text(message: ProviderMessage) -> str:
    """Return the text of a message; the texts of a list of parts, joined by line breaks."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


def slots(item: DraftMessage) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield name and span of every outlet marker in a message, from left to right.

    Only template and character messages can have outlets: a user's text never opens one.
    """
    text = text_of(item.message)
    if text is not None and item.kind in _WITH_SLOTS:
        for marker in _MARKER.finditer(text):
            yield marker[1].strip(BLANK), marker.span()


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """The places of a draft. A gap is identified by the number of messages before it.

    Attributes:
        size: the number of messages.
        opening_end: the gap after the leading run of system messages.
        character, examples: indexes of the first and the last message of that kind.
        real: indexes of the real chat messages.
        note: index of the author's note.
        outlets: the names of the outlets, in order, without repeats.
    """

    size: int
    opening_end: int
    character: tuple[int, int] | None
    examples: tuple[int, int] | None
    real: tuple[int, ...]
    note: int | None
    outlets: tuple[str, ...]

    @classmethod
    def of(cls, draft: Sequence[DraftMessage]) -> Anchors:
        """Return the places of a draft."""
        roles = [role_of(item.message) in SYSTEM_ROLES for item in draft]
        names = dict.fromkeys(name for item in draft for name, _ in slots(item))
        notes = (
            index
            for index, item in enumerate(draft)
            if item.kind == "author_note" and text_of(item.message) is not None
        )
        return cls(
            size=len(draft),
            opening_end=(*roles, False).index(False),
            character=_ends(draft, "character"),
            examples=_ends(draft, "examples"),
            real=tuple(index for index, item in enumerate(draft) if item.kind in REAL),
            note=next(notes, None),
            outlets=tuple(names),
        )

    @property
    def before_character(self) -> int:
        """The gap before the character, else the start of the draft."""
        return self.character[0] if self.character else 0

    @property
    def after_character(self) -> int:
        """The gap after the character, else after the leading system messages."""
        return self.character[1] + 1 if self.character else self.opening_end

    def at_depth(self, depth: int) -> int:
        """Return the gap at a depth, counted in real chat messages from the end.

        Source: docs/rules/host.md §7.1.
        """
        if not self.real:
            return self.size
        before = max(len(self.real) - depth, 0)  # real messages before the gap
        gap = self.real[before] if depth else self.real[-1] + 1
        return max(gap, self.opening_end)


def _ends(draft: Sequence[DraftMessage], kind: DraftKind) -> tuple[int, int] | None:
    found = [index for index, item in enumerate(draft) if item.kind == kind]
    return (found[0], found[-1]) if found else None
