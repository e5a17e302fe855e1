"""Requests under SillyTavern's rules for a chat of which only the messages are known."""

from __future__ import annotations

from collections.abc import Sequence

from lorewell.app.runtime.bound_prompts import BoundPrompt
from lorewell.app.runtime.gateway import Gateway
from lorewell.host.completions import character_text, find_name, spoken
from lorewell.host.usage import sillytavern_use, with_sillytavern
from lorewell.model import ActivateRequest
from lorewell.model.activate import (
    AttachedBook,
    ChatLine,
    MacroValues,
    ScanTexts,
)
from lorewell.model.assemble import DraftMessage

_MAX_CHARS = 200_000
_MAX_LINES = 10_000
_MAX_NAME_CHARS = 500
# Default names, those of a chat without a character.
_CHAR, _USER = "Assistant", "User"


def make_activation(
    gateway: Gateway,
    bound: BoundPrompt,
    draft: Sequence[DraftMessage],
    names: tuple[str | None, str | None],
) -> ActivateRequest:
    """Return the request of a turn, without its conversation and its seed.

    Its budget is the gateway's, unless the prompt has its own. A line has a name if
    its message has one. Of the texts to scan besides the chat, only the character's is known.

    Args:
        gateway: the gateway, for its budget.
        bound: the prompt, for its books and settings.
        draft: the messages.
        names: of the character and of the user, if given.
    """
    lines = spoken(draft)
    about = character_text(draft)[:_MAX_CHARS]
    char = (names[0] or find_name(draft, "assistant") or _CHAR)[:_MAX_NAME_CHARS]
    user = (names[1] or find_name(draft, "user") or _USER)[:_MAX_NAME_CHARS]
    usage = sillytavern_use(
        bound.settings.sillytavern,
        token_budget=gateway.token_budget,
        context_window=gateway.context_window,
    )
    made = ActivateRequest(
        settings=usage.settings,
        books=tuple(AttachedBook(**book.model_dump()) for book in bound.books),
        chat=tuple(
            ChatLine(name=each.name and each.name[:_MAX_NAME_CHARS], content=each.text[:_MAX_CHARS])
            for each in lines[-_MAX_LINES:]
        ),
        scan_texts=ScanTexts(character_description=about),
        macros=MacroValues(char=char, user=user, description=about),
        trigger="continue" if lines and lines[-1].role != "user" else "normal",
        context_tokens=usage.context_tokens,
        explain="selected",
    )
    return with_sillytavern(made, bound.settings.sillytavern)
