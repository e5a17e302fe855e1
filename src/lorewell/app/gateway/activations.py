"""Requests under SillyTavern's rules for a chat of which only the messages are known."""

from __future__ import annotations

from collections.abc import Sequence

from lorewell.app.gateway.scenes import KnownTurn
from lorewell.app.runtime.bound_prompts import BoundPrompt
from lorewell.app.runtime.gateway import Gateway
from lorewell.app.sillytavern.places import speaker_of
from lorewell.host.alignment import SentLine
from lorewell.host.completions import SpokenMessage, character_text, find_name, spoken
from lorewell.host.usage import sillytavern_use, with_sillytavern
from lorewell.model import ActivateRequest
from lorewell.model.assemble import DraftMessage
from lorewell.model.parse import parse_model
from lorewell.model.scene import Scene
from lorewell.model.scene_fields import for_request

_MAX_CHARS = 200_000
_MAX_LINES = 10_000
_MAX_NAME_CHARS = 500
_STAND_INS = {"char": "Assistant", "user": "User"}  # as in a chat without a character


def spoken_lines(draft: Sequence[DraftMessage], *, with_roles: bool) -> list[SentLine]:
    """Return the lines of a chat, for its place in a conversation."""
    return [
        SentLine(
            speaker_of(each.role, each.name, has_role=with_roles),
            each.text,
            each.role == "assistant",
        )
        for each in spoken(draft)[-_MAX_LINES:]
    ]


def make_activation(
    gateway: Gateway,
    bound: BoundPrompt,
    draft: Sequence[DraftMessage],
    known: KnownTurn,
) -> ActivateRequest:
    """Return the request of a turn.

    Its budget is the gateway's, unless the prompt has its own. A line has a name if its message has
    one, or its speaker is named. The character's description is that of the messages.

    Args:
        gateway: the gateway, for its budget.
        bound: the prompt, for its books and settings.
        draft: the messages.
        known: what is known about the turn besides its messages.
    """
    lines = spoken(draft)
    about = character_text(draft)[:_MAX_CHARS]
    scene = known.scene
    found = {"char": find_name(draft, "assistant"), "user": find_name(draft, "user")}
    said = {} if scene is None else {"char": scene.char, "user": scene.user}
    names = {who: (name or _STAND_INS[who])[:_MAX_NAME_CHARS] for who, name in found.items()}
    stand_ins = [who for who, name in found.items() if not name and said.get(who) is None]
    settings = bound.settings.sillytavern
    usage = sillytavern_use(
        settings, token_budget=gateway.token_budget, context_window=gateway.context_window
    )
    document = {
        "settings": usage.settings.model_dump(exclude_unset=True),
        "books": tuple(book.model_dump() for book in bound.books),
        "chat": tuple(_line(each, known.speakers) for each in lines[-_MAX_LINES:]),
        "scan_texts": {"character_description": about},
        "macros": {**names, "stand_ins": stand_ins, "description": about},
        "trigger": "continue" if lines and lines[-1].role != "user" else "normal",
        "context_tokens": usage.context_tokens,
        "seed": known.seed,
        "conversation_id": known.conversation_id,
        "explain": "selected",
    }
    made = parse_model(ActivateRequest, for_request(document, scene, "sillytavern"))
    return with_sillytavern(made, settings)


def _line(said: SpokenMessage, speakers: Scene | None) -> dict[str, str | None]:
    name = said.name
    if name is None and speakers is not None:
        name = {"user": speakers.user, "assistant": speakers.char}.get(said.role)
    return {"name": name and name[:_MAX_NAME_CHARS], "content": said.text[:_MAX_CHARS]}
