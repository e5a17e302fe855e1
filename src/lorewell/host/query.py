"""Builds the selection request of a turn: query, state, history, capabilities.

Source: docs/rules/host.md §5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from lorewell.errors import MalformedJsonError
from lorewell.host.draft import Anchors, role_of, spoken_text
from lorewell.model import POSITIONS, BookRef, Message, PlacementCapabilities, SelectRequest
from lorewell.model.assemble import DraftMessage
from lorewell.model.parse import nesting, parse_json, parse_model
from lorewell.model.prompt_settings import (
    NO_SETTINGS,
    PROMPT_RECALL_FLOOR,
    PROMPT_STRATEGY,
    PROMPT_TOKEN_BUDGET,
    NativeDefaults,
)
from lorewell.model.scene import Scene
from lorewell.model.scene_fields import for_request
from lorewell.model.select import Strategy
from lorewell.model.text import BLANK, MAX_NESTING, is_blank

MAX_QUERY_CHARS: Final = 8_000
MAX_MESSAGE_CHARS: Final = 16_000
MAX_HISTORY: Final = 20
_MAX_OUTLETS = 50
_MAX_OUTLET_CHARS = 100
_SCENE_LINE = "Current scene:"
_SCENE_MEMBERS = ("location", "time", "situation")
_SPEAKERS = frozenset({"user", "assistant"})

StateSource = Literal["json", "none"]
SceneSource = Literal["json", "line", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInputs:
    """The inputs of a turn besides the draft of its prompt.

    Attributes:
        books: the revisions that the turn uses, in order.
        request_id: of the turn. Retries use the same one, so that rolls repeat.
        strategy, token_budget: of the service or host.
        settings: of the prompt under the policy `native`; these win.
        saved_state: as stored: JSON or any text.
        char, user: names, if known.
        scene: what the caller says about the turn; its members win over all others.
    """

    books: Sequence[BookRef]
    request_id: str
    strategy: Strategy = PROMPT_STRATEGY
    token_budget: int = PROMPT_TOKEN_BUDGET
    settings: NativeDefaults = NO_SETTINGS.native
    saved_state: str = ""
    char: str | None = None
    user: str | None = None
    scene: Scene | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnQuery:
    """The request of a turn, and the sources of its state and scene."""

    request: SelectRequest
    state_source: StateSource
    scene_source: SceneSource


def make_query(draft: Sequence[DraftMessage], turn: TurnInputs) -> TurnQuery:
    """Return the selection request of a turn, made from the draft of its prompt.

    Only the fields of docs/rules/host.md §5 and the prompt's own settings are set.

    Raises:
        ValidationFailedError: the request exceeds a bound of the contract, such as a saved state
            of over 256 KiB, or holds a text that can't be stored. Nothing is dropped to make it
            fit.
        MalformedJsonError: the saved state is an object nested deeper than 100.
    """
    values = None if turn.scene is None else turn.scene.values
    state = read_state(turn.saved_state) if values is None else values
    situation, scene_source = find_scene(state, turn.saved_state)
    query = build_query(input_text(draft), situation)
    names = {"char": turn.char, "user": turn.user}
    members: dict[str, object] = {
        "strategy": turn.strategy,
        "token_budget": turn.token_budget,
        "recall_floor": PROMPT_RECALL_FLOOR,
        **turn.settings.given(),
        "books": tuple(
            BookRef(book_id=each.book_id, revision=each.revision) for each in turn.books
        ),
        "query": query,
        "history": chat_history(draft, most=max(MAX_HISTORY, turn.settings.scan_depth)),
        "state": state or {},
        "seed": turn.request_id,
        "template_vars": {name: value for name, value in names.items() if value is not None},
        "placement_capabilities": capabilities(draft),
    }
    if is_blank(query):  # it recalls nothing; constants and keys in the history select entries
        members["strategy"] = "rules"
    return TurnQuery(
        request=parse_model(SelectRequest, for_request(members, turn.scene, "native")),
        state_source="none" if state is None else "json",
        scene_source=scene_source,
    )


def read_state(saved: str) -> dict[str, Any] | None:
    """Return the saved state if it is a JSON object, else None.

    Raises:
        MalformedJsonError: it is an object nested deeper than 100. Treating it as empty would make
            conditions true that require something to be absent.

    Source: docs/rules/host.md §5.1.
    """
    try:
        state = parse_json(saved.encode(errors="surrogatepass"))
    except MalformedJsonError:
        looks_like_object = saved.strip(BLANK)[:1] == "{" and saved.strip(BLANK)[-1:] == "}"
        if looks_like_object and nesting(saved) > MAX_NESTING:
            raise
        return None
    return state if isinstance(state, dict) else None


def find_scene(state: Mapping[str, Any] | None, saved: str) -> tuple[str, SceneSource]:
    r"""Return the public text of the scene, "" without one, and its source.

    Args:
        state: the saved state, if it is a JSON object.
        saved: the saved state as stored.

    Source: docs/rules/host.md §5.2.

    >>> find_scene(None, "Mood: tense\nCurrent scene: toll pier, low tide")
    ('toll pier, low tide', 'line')
    """
    if state is None:
        for line in saved.splitlines():
            text = line.strip(BLANK)
            if text.startswith(_SCENE_LINE):
                found = text.removeprefix(_SCENE_LINE).strip(BLANK)
                return found, "line" if found else "none"
        return "", "none"
    scene = state.get("current_scene")
    members = [scene.get(name) for name in _SCENE_MEMBERS] if isinstance(scene, dict) else []
    texts = [text for text in members if isinstance(text, str) and not is_blank(text)]
    return "; ".join(texts), "json" if texts else "none"


def build_query(user_input: str, scene: str) -> str:
    """Return input and scene as one query; a single space if both are blank.

    A long query is cut at its end, so the scene is cut before the input.

    Source: docs/rules/host.md §5.2.
    """
    texts = [text for text in (user_input, scene) if not is_blank(text)]
    return "\n".join(texts)[:MAX_QUERY_CHARS] or " "


def input_text(draft: Sequence[DraftMessage]) -> str:
    """Return the current user input, "" without one."""
    texts = (spoken_text(item.message) for item in draft if item.kind == "input")
    return "\n".join(texts)


def chat_history(draft: Sequence[DraftMessage], *, most: int = MAX_HISTORY) -> tuple[Message, ...]:
    """Return the newest messages before the current input, oldest first, each cut to its limit.

    Only real chat messages of user and assistant; blank ones are skipped. A list of parts
    contributes its texts.

    Source: docs/rules/host.md §5.
    """
    return tuple(
        parse_model(Message, {"role": role, "content": text[:MAX_MESSAGE_CHARS]})
        for role, text in chat_before_input(draft)[-most:]
    )


def chat_before_input(draft: Sequence[DraftMessage]) -> list[tuple[str, str]]:
    """Return role and text of the non-blank chat messages before the input, oldest first."""
    inputs = (index for index, item in enumerate(draft) if item.kind == "input")
    before = draft[: next(inputs, len(draft))]
    chat = [
        (role_of(item.message), spoken_text(item.message))
        for item in before
        if item.kind == "chat" and role_of(item.message) in _SPEAKERS
    ]
    return [(role, text) for role, text in chat if not is_blank(text)]


def capabilities(draft: Sequence[DraftMessage]) -> PlacementCapabilities:
    """Return the places that a prompt has, and no others.

    Outlets are limited to 50, with names that an entry can have.

    Source: docs/rules/host.md §5.3.
    """
    anchors = Anchors.of(draft)
    names = [name for name in anchors.outlets if 0 < len(name) <= _MAX_OUTLET_CHARS]
    has = {
        "before_examples": anchors.examples is not None,
        "after_examples": anchors.examples is not None,
        "author_note_top": anchors.note is not None,
        "author_note_bottom": anchors.note is not None,
        "outlet": bool(names),
    }
    positions = tuple(position for position in POSITIONS if has.get(position, True))
    return parse_model(
        PlacementCapabilities, {"positions": positions, "outlets": tuple(names[:_MAX_OUTLETS])}
    )
