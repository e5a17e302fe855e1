"""What a selection is asked for a turn: query, state, history, capabilities.

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
    """What a host knows about a turn beside the draft of its prompt.

    Attributes:
        books: the revisions that the turn uses, in order.
        request_id: of the turn; retries have the same one, so that chance stays the same.
        saved_state: as it is stored: JSON or any text.
        char, user: names, if they are known.
    """

    books: Sequence[BookRef]
    request_id: str
    strategy: Strategy = "hybrid"
    token_budget: int = 2_400
    saved_state: str = ""
    char: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnQuery:
    """What is asked for a turn, and where state and scene came from."""

    request: SelectRequest
    state_source: StateSource
    scene_source: SceneSource


def make_query(draft: Sequence[DraftMessage], turn: TurnInputs) -> TurnQuery:
    """Return what to ask the selection for, from the draft of a prompt.

    Only the fields of docs/rules/host.md §5 are set.

    Raises:
        ValidationFailedError: the request breaks a bound of the contract, as a saved state of over
            256 KiB does, or a text that can't be stored. Nothing is emptied to make it fit.
        MalformedJsonError: the saved state is an object that nests deeper than 100.
    """
    state = read_state(turn.saved_state)
    scene, scene_source = find_scene(state, turn.saved_state)
    query = build_query(input_text(draft), scene)
    names = {"char": turn.char, "user": turn.user}
    members: dict[str, object] = {
        "books": tuple(turn.books),
        "query": query,
        "history": chat_history(draft),
        "state": state or {},
        # A blank query recalls nothing; what needs none, and keys in the history, still count.
        "strategy": "rules" if is_blank(query) else turn.strategy,
        "token_budget": turn.token_budget,
        "seed": turn.request_id,
        "template_vars": {name: value for name, value in names.items() if value is not None},
        "placement_capabilities": capabilities(draft),
    }
    return TurnQuery(
        request=parse_model(SelectRequest, members),
        state_source="none" if state is None else "json",
        scene_source=scene_source,
    )


def read_state(saved: str) -> dict[str, Any] | None:
    """Return the saved state if it is a JSON object, else None.

    Raises:
        MalformedJsonError: it is an object that nests deeper than 100. Taking it for empty would
            make conditions true that ask for something to be absent.

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
    r"""Return the public text of the scene, "" if there is none, and where it came from.

    Args:
        state: the saved state, if it is a JSON object.
        saved: the saved state as it is stored.

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


def build_query(said: str, scene: str) -> str:
    """Return input and scene as one query; a single space if both are blank.

    It is cut at its end, so the scene is cut before the input.

    Source: docs/rules/host.md §5.2.
    """
    texts = [text for text in (said, scene) if not is_blank(text)]
    return "\n".join(texts)[:MAX_QUERY_CHARS] or " "


def input_text(draft: Sequence[DraftMessage]) -> str:
    """Return what the user says now, "" if nothing."""
    said = (spoken_text(item.message) for item in draft if item.kind == "input")
    return "\n".join(said)


def chat_history(draft: Sequence[DraftMessage]) -> tuple[Message, ...]:
    """Return the newest 20 messages before the current input, oldest first, each cut.

    Real chat messages of user and assistant alone; blank ones are skipped. Of a list of parts the
    texts count.

    Source: docs/rules/host.md §5.
    """
    return tuple(
        parse_model(Message, {"role": role, "content": text[:MAX_MESSAGE_CHARS]})
        for role, text in said_before(draft)[-MAX_HISTORY:]
    )


def said_before(draft: Sequence[DraftMessage]) -> list[tuple[str, str]]:
    """Return role and text of the chat before the current input, oldest first, blank ones not."""
    inputs = (index for index, item in enumerate(draft) if item.kind == "input")
    before = draft[: next(inputs, len(draft))]
    said = [
        (role_of(item.message), spoken_text(item.message))
        for item in before
        if item.kind == "chat" and role_of(item.message) in _SPEAKERS
    ]
    return [(role, text) for role, text in said if not is_blank(text)]


def capabilities(draft: Sequence[DraftMessage]) -> PlacementCapabilities:
    """Return the places that a prompt has, never more.

    Of its outlets, those with a name that an entry can have, at most 50.

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
