"""Assembles a prompt with the active entries (docs/rules/replica.md §5, §7.4, §7.5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lorewell.engine.replica.macros import fill_outlets
from lorewell.engine.replica.positions import (
    AFTER_CHARACTER,
    AFTER_EXAMPLES,
    AT_DEPTH,
    BEFORE_CHARACTER,
    BEFORE_EXAMPLES,
    NOTE,
    OUTLET,
    SYSTEM_MESSAGE,
)
from lorewell.engine.steps import Steps
from lorewell.model.replica import ReplicaActive

ROLES: Final = ("system", "user", "assistant")


class ReplicaMessage(NamedTuple):
    """One message of a prompt."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDraft:
    """The host's own parts of a prompt.

    Attributes:
        character, examples: texts that may contain outlet markers.
        history: oldest first, without the user's text.
        mes: the user's text.
    """

    character: str = ""
    examples: str = ""
    history: Sequence[ReplicaMessage] = ()
    mes: str = ""


class ReplicaPrompt(NamedTuple):
    """A prompt, and the uids of active outlet entries whose marker is missing."""

    messages: tuple[ReplicaMessage, ...]
    unplaced: tuple[str, ...]


def assemble(
    draft: ReplicaDraft, entries: Iterable[ReplicaActive], *, steps: Steps | None = None
) -> ReplicaPrompt:
    """Assemble the prompt of a turn.

    Args:
        draft: the host's own texts; markers in history and user's text are ignored.
        entries: the active entries, in the order of the answer.
        steps: the step budget; `Steps()` by default.

    Raises:
        TooExpensiveError: markers would make the prompt too long.
    """
    steps = steps or Steps()
    placed: dict[int, list[ReplicaActive]] = {number: [] for number in range(OUTLET + 1)}
    for entry in entries:
        placed[entry.position].append(entry)
    outlets: dict[str, str] = {}
    for entry in placed[OUTLET]:
        outlets.setdefault(entry.uid, entry.content)
    character, in_character = fill_outlets(draft.character, outlets, steps)
    examples, in_examples = fill_outlets(draft.examples, outlets, steps)
    parts = [
        *_texts(placed[BEFORE_CHARACTER]),
        character,
        *_texts(placed[AFTER_CHARACTER]),
        *_texts(placed[BEFORE_EXAMPLES]),
        examples,
        *_texts(placed[AFTER_EXAMPLES]),
    ]
    messages = [ReplicaMessage("system", entry.content) for entry in placed[SYSTEM_MESSAGE]]
    one = "\n".join(part for part in parts if part)
    messages += [ReplicaMessage("system", one)] if one else []
    messages += _with_depths(draft.history, placed[AT_DEPTH])
    note = "\n".join(_texts(placed[NOTE]))
    messages += [ReplicaMessage("system", note)] if note else []
    messages.append(ReplicaMessage("user", draft.mes))
    unplaced = tuple(uid for uid in outlets if uid not in in_character | in_examples)
    return ReplicaPrompt(tuple(messages), unplaced)


def _texts(entries: Iterable[ReplicaActive]) -> list[str]:
    return [entry.content for entry in entries]


def _with_depths(
    history: Sequence[ReplicaMessage], entries: Iterable[ReplicaActive]
) -> list[ReplicaMessage]:
    """Return the history with entries at their depths; 0 is after its last message.

    Entries of one depth keep their order; entries deeper than the history come before it.
    """
    before: dict[int, list[ReplicaMessage]] = {}
    for entry in entries:
        at = max(len(history) - entry.depth, 0)
        before.setdefault(at, []).append(ReplicaMessage(ROLES[entry.role], entry.content))
    messages: list[ReplicaMessage] = []
    for number in range(len(history) + 1):
        messages += before.get(number, [])
        messages += history[number : number + 1]
    return messages
