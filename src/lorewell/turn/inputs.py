"""The input of a turn, and the request for the policy `sillytavern` made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from lorewell.engine.tokens import TokenCounter
from lorewell.errors import Fault, ValidationFailedError
from lorewell.host.draft import role_of, spoken_text
from lorewell.host.place import insert_note
from lorewell.host.usage import sillytavern_use, with_sillytavern
from lorewell.model import ActivateRequest, ResolvedBindings
from lorewell.model.assemble import DraftMessage
from lorewell.model.faults import faults_below
from lorewell.model.parse import parse_model
from lorewell.model.scene import Scene, merge_scenes, without_members
from lorewell.model.scene_fields import for_request, usable
from lorewell.model.select import Strategy
from lorewell.model.text import is_blank
from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn.conversations import conversation_name
from lorewell.turn.ports import ConversationKey

_MAX_TEXT_CHARS: Final = 200_000
_MAX_LINES: Final = 10_000
_CHAT = frozenset({"chat", "input"})
_SPEAKERS = frozenset({"user", "assistant"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInput:
    """One accepted input of a user, and the prompt for its reply before lore is placed.

    Attributes:
        request_id: the id of the turn, which seeds random draws. A retry has the same one.
        user_id: from the host's own session, never from a value that the user can set.
        draft: the messages, in order.
        saved_state: the stored state of the story: JSON or any text.
        char, user: the names of the character and the user, if known.
        strategy, token_budget: of this turn; None takes the prompt's, else the configured ones.
        tools: tool definitions, which count as part of the prompt.
        counter: counts the tokens of this turn's prompt; None takes the tokenizer of the scene,
            else the prompt's, else the counter of the host.
        scene: what is known about the turn in the form that all policies share. No value may be
            given here and in another attribute.
    """

    request_id: str
    user_id: str
    conversation_id: str
    prompt_id: str
    draft: Sequence[DraftMessage]
    scene_id: str | None = None
    saved_state: str = ""
    char: str | None = None
    user: str | None = None
    strategy: Strategy | None = None
    token_budget: int | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    counter: TokenCounter | None = None
    scene: Scene | None = None

    def key(self, tenant_id: str) -> ConversationKey:
        """Return the key of the turn's conversation."""
        return ConversationKey(
            tenant_id=tenant_id, user_id=self.user_id, conversation_id=self.conversation_id
        )

    @property
    def usage(self) -> Mapping[str, object]:
        """The strategy and the budget that this turn has of its own."""
        own = {"strategy": self.strategy, "token_budget": self.token_budget}
        return {name: each for name, each in own.items() if each is not None}

    @property
    def history(self) -> tuple[Mapping[str, Any], ...]:
        """The chat messages with the input and without lore, for a planner or a director."""
        return tuple(item.message for item in self.draft if item.kind in _CHAT)


def prompt_draft(given: TurnInput) -> tuple[DraftMessage, ...]:
    """Return the draft of a turn with the author's note of its scene.

    Raises:
        ValidationFailedError: the scene gives a value that the input gives too.
    """
    scene = given.scene
    if scene is None:
        return tuple(given.draft)
    twice = {
        "/scene/state": ("saved_state", scene.values is not None and given.saved_state),
        "/scene/names/char": ("char", scene.char is not None and given.char is not None),
        "/scene/names/user": ("user", scene.user is not None and given.user is not None),
    }
    faults = [Fault(at, f"is also given in {name}") for at, (name, both) in twice.items() if both]
    if faults:
        raise ValidationFailedError.at(*faults)
    if scene.note is None:
        return tuple(given.draft)
    with faults_below("/scene"):
        return insert_note(given.draft, scene.note)


def with_prompt_scene(given: TurnInput, bindings: ResolvedBindings) -> TurnInput:
    """Return a turn with the scene of its prompt, where the turn does not say the same itself."""
    default = usable(bindings.settings.scene, bindings.policy)
    if default is None:
        return given
    said = {
        "names.char": given.char,
        "character.name": given.char,
        "names.user": given.user,
        **dict.fromkeys(("state", "tables"), given.saved_state or None),
    }
    rest = without_members(default, {name for name, value in said.items() if value is not None})
    return replace(given, scene=merge_scenes(given.scene, rest))


def activation_request(
    given: TurnInput, config: WorldbookConfig, bindings: ResolvedBindings
) -> ActivateRequest:
    """Return the request of a turn under SillyTavern's rules.

    The budget is the configured one, unless the turn or the prompt has its own. The lore source
    keeps timed state, under a name made of tenant, user and conversation.

    Raises:
        ValidationFailedError: a text can't be stored, or the request id is too long.
    """
    scene = given.scene or Scene()
    names = {"user": given.user or scene.user or "", "assistant": given.char or scene.char or ""}
    lines = [
        {"name": names[role_of(item.message)] or None, "content": said[:_MAX_TEXT_CHARS]}
        for item in given.draft
        if item.kind in _CHAT
        and role_of(item.message) in _SPEAKERS
        and not is_blank(said := spoken_text(item.message))
    ]
    card = "\n".join(spoken_text(item.message) for item in given.draft if item.kind == "character")
    described = card[:_MAX_TEXT_CHARS]
    settings = bindings.settings.sillytavern
    token_budget = config.token_budget
    if given.token_budget is not None:
        settings, token_budget = settings.without_budget(), given.token_budget
    usage = sillytavern_use(
        settings, token_budget=token_budget, context_window=config.context_window
    )
    document = {
        "books": tuple(book.model_dump() for book in bindings.books),
        "chat": tuple(lines[-_MAX_LINES:]),
        "macros": {**_without_none(char=given.char, user=given.user), "description": described},
        "scan_texts": {"character_description": described},
        "settings": usage.settings,
        "context_tokens": usage.context_tokens,
        "seed": given.request_id,
        "conversation_id": conversation_name(given.key(config.tenant_id)),
    }
    made = parse_model(ActivateRequest, for_request(document, given.scene, "sillytavern"))
    return with_sillytavern(made, settings)


def _without_none(**members: str | None) -> dict[str, str]:
    return {name: value for name, value in members.items() if value is not None}
