"""Requests that run a whole chat: books under a policy, and the chat."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lorewell.model.base import Contract
from lorewell.model.binding import MAX_BINDINGS, PolicyChoice
from lorewell.model.conversation import PromptName
from lorewell.model.entry import Role
from lorewell.model.preview import PreviewBook
from lorewell.model.prompt_settings import NO_SETTINGS, PromptSettings
from lorewell.model.scene import Seed
from lorewell.model.text import Count, Name, ScannedText


class ReplayLine(Contract):
    """A message of a chat to replay.

    Attributes:
        role: who wrote it.
        name: its author's name; the policy `sillytavern` scans it.
        content: its text.
    """

    role: Role
    name: Name | None = None
    content: ScannedText


class ReplayTurns(Contract):
    """A chat, and where its turns are.

    Attributes:
        chat: the messages, oldest first.
        turns_after: which messages end a turn: every one, or those with the role `user`.
        from_messages: lowest number of messages at the first turn.
        seed: the seed of a turn is `{seed}:{number of messages}`.
    """

    chat: Annotated[tuple[ReplayLine, ...], Field(min_length=1, max_length=10_000)]
    turns_after: Literal["every_message", "user_messages"] = "user_messages"
    from_messages: Count = 1
    seed: Seed = "0"


class ReplayBooks(Contract):
    """The books of a chat, and how its turns use them.

    Attributes:
        prompt_id: use the books and the settings of this prompt.
        books: stored, stored with changes, or sent whole; they replace those of the prompt.
        settings: of the turns; what they do not give comes from the prompt.
    """

    prompt_id: PromptName | None = None
    books: Annotated[tuple[PreviewBook, ...], Field(max_length=MAX_BINDINGS)] = ()
    settings: PromptSettings = NO_SETTINGS


class ReplaySide(ReplayBooks):
    """The books of a chat under a policy.

    Attributes:
        policy: the policy; `auto` is that of the prompt, else that of the books.
    """

    policy: PolicyChoice = "auto"


class ChatReplayRequest(ReplayBooks, ReplayTurns):
    """A chat to run through books, under the policy of the route."""


class ReplayPlanRequest(ReplaySide, ReplayTurns):
    """A chat whose token budget is planned."""


class ReplayDiffRequest(ReplayTurns):
    """A chat to run on two sides.

    Attributes:
        first: the side to compare with.
        second: the other side.
    """

    first: ReplaySide
    second: ReplaySide
