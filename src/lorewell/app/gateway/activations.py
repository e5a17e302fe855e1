"""Requests under SillyTavern's rules for a chat of which only the messages are known."""

from __future__ import annotations

from collections.abc import Sequence

from lorewell.app.runtime.gateway import Gateway
from lorewell.app.sillytavern.places import speaker_of
from lorewell.host.alignment import SentLine
from lorewell.host.completions import character_text, find_name, spoken
from lorewell.model import ActivateRequest, BookRef
from lorewell.model.activate import (
    AttachedBook,
    ChatLine,
    ScanTexts,
    SillyTavernSettings,
)
from lorewell.model.assemble import DraftMessage
from lorewell.model.macro_values import MacroValues

_MAX_CHARS = 200_000
_MAX_LINES = 10_000
_MAX_NAME_CHARS = 500
_WHOLE_PERCENT = 100
# Default names, those of a chat without a character.
_CHAR, _USER = "Assistant", "User"


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
    refs: Sequence[BookRef],
    draft: Sequence[DraftMessage],
    names: tuple[str | None, str | None],
) -> ActivateRequest:
    """Return the request of a turn, without its conversation and its seed.

    Its budget is the gateway's, in tokens and not as a share of the window. A line has a name if
    its message has one. Of the texts to scan besides the chat, only the character's is known.

    Args:
        gateway: the gateway, for its budget.
        refs: the books, in order.
        draft: the messages.
        names: of the character and of the user, if given.
    """
    lines = spoken(draft)
    about = character_text(draft)[:_MAX_CHARS]
    char = (names[0] or find_name(draft, "assistant") or _CHAR)[:_MAX_NAME_CHARS]
    user = (names[1] or find_name(draft, "user") or _USER)[:_MAX_NAME_CHARS]
    budgets = [gateway.token_budget]
    if gateway.context_window is not None:
        budgets.append(gateway.context_window)
    return ActivateRequest(
        settings=SillyTavernSettings(world_info_budget=_WHOLE_PERCENT),
        books=tuple(AttachedBook(book_id=ref.book_id, revision=ref.revision) for ref in refs),
        chat=tuple(
            ChatLine(name=each.name and each.name[:_MAX_NAME_CHARS], content=each.text[:_MAX_CHARS])
            for each in lines[-_MAX_LINES:]
        ),
        scan_texts=ScanTexts(character_description=about),
        macros=MacroValues(char=char, user=user, description=about),
        trigger="continue" if lines and lines[-1].role != "user" else "normal",
        context_tokens=min(budgets),
        explain="selected",
    )
