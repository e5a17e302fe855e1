"""The macros of the new engine by name (docs/rules/sillytavern-macros.md §5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from lorewell.engine.sillytavern.javascript import number_text
from lorewell.engine.sillytavern.macros import card, chat, host
from lorewell.engine.sillytavern.macros.chance import draw_item, items_of, pick_item, roll
from lorewell.engine.sillytavern.macros.parsing import COMMENT, ELSE
from lorewell.engine.sillytavern.macros.state import MacroFailedError, MacroState, Miss
from lorewell.engine.sillytavern.macros.variables import VariablesFullError, VariableTable

IF: Final = "if"
TRIM: Final = "{{trim}}"
MAX_COUNT: Final = 10_000  # of line breaks or blanks of one macro
_INTEGER = re.compile(r"-?[0-9]+")
_LONGEST_INTEGER: Final = 18  # digits beyond do not matter: the number is out of every range


class TextInHand(Protocol):
    """The text that is being expanded."""

    @property
    def digest(self) -> int:
        """The hash of the text as written."""

    @property
    def is_card(self) -> bool:
        """Whether the text is a field of the card: card macros are empty in it."""

    def field(self, name: str) -> str:
        """Return a field of the card with its macros expanded."""

    def greeting(self, index: int) -> str:
        """Return a first message with its macros expanded."""


@dataclass(slots=True)
class MacroCall:
    """A macro that runs.

    Attributes:
        state: what it reads and changes.
        text: the text that it is in.
        args: its arguments, expanded.
        place: where it stands, in UTF-16 units.
        is_pair: whether its last argument is the text between its tags.
    """

    state: MacroState
    text: TextInHand
    args: Sequence[str]
    place: int = 0
    is_pair: bool = False


class Macro(NamedTuple):
    """A macro of the table.

    Attributes:
        run: returns its value.
        least, most: how many arguments it takes; None is any number.
        counts: whether its last argument must be an integer.
    """

    run: Callable[[MacroCall], str]
    least: int = 0
    most: int | None = 0
    counts: bool = False

    def takes(self, arguments: int) -> bool:
        """Return whether it takes so many arguments."""
        return self.least <= arguments and (self.most is None or arguments <= self.most)


def _of_state(value: Callable[[MacroState], str]) -> Macro:
    return Macro(lambda call: value(call.state))


def _of_host(name: str) -> Macro:
    return Macro(lambda call: call.state.host_text(name))


def _of_card(name: str) -> Macro:
    return Macro(lambda call: call.text.field(name))


def _format(pattern: str) -> Macro:
    return Macro(lambda call: chat.local_time(call.state, pattern))


def _instruct(names: tuple[str, ...]) -> Macro:
    return Macro(lambda call: host.instruct_text(call.state, names))


def too_large(state: MacroState) -> MacroFailedError:
    """Note that a macro exceeds a limit of ours, and return its failure."""
    state.misses.append(Miss("macro_too_large", ""))
    return MacroFailedError()


def is_integer(text: str) -> bool:
    """Return whether a text is an integer argument."""
    return _INTEGER.fullmatch(text) is not None


def _integer(call: MacroCall, default: int) -> int:
    return int(call.args[0][: _LONGEST_INTEGER + 1]) if call.args else default


def _repeat(sign: str) -> Callable[[MacroCall], str]:
    def run(call: MacroCall) -> str:
        count = _integer(call, 1)
        if count < 0:
            raise MacroFailedError
        if count > MAX_COUNT:
            raise too_large(call.state)
        return sign * count

    return run


def _fail(_call: MacroCall) -> str:
    raise MacroFailedError


def _vanish(_call: MacroCall) -> str:
    return ""


def _trim(call: MacroCall) -> str:
    return call.args[0] if call.is_pair else TRIM


def _reverse(call: MacroCall) -> str:
    return call.args[0][::-1]


def _greeting(call: MacroCall) -> str:
    return call.text.greeting(_integer(call, 0))


def _version(call: MacroCall) -> str:
    return "" if call.text.is_card else call.state.card_text("character_version")


def _examples(call: MacroCall) -> str:
    return card.example_blocks(call.state, call.text.field("example_messages"))


def _system_prompt(call: MacroCall) -> str:
    if not host.uses_system_prompt(call.state):
        return ""
    return call.text.field("system_prompt") or host.default_system_prompt(call.state)


def _time(call: MacroCall) -> str:
    if call.args:
        return chat.time_at(call.state, call.args[0])
    return chat.local_time(call.state, "LT")


def _date_format(call: MacroCall) -> str:
    return chat.local_time(call.state, call.args[0])


def _time_difference(call: MacroCall) -> str:
    return chat.time_difference(call.state, call.args[0], call.args[1])


def _random(call: MacroCall) -> str:
    return draw_item(items_of(call.args), call.state.draws)


def _pick(call: MacroCall) -> str:
    state = call.state
    seed = f"{state.store_chat_hash()}-{call.text.digest}-{call.place}"
    reroll = state.values.reroll_seed
    if reroll:
        seed += f"-{reroll if isinstance(reroll, str) else number_text(reroll)}"
    return pick_item(items_of(call.args), str(state.hash_of(seed)), state.steps)


def _roll(call: MacroCall) -> str:
    total = roll(call.args[0], call.state.draws, call.state.steps)
    if total is None:
        raise too_large(call.state)
    return total


def _outlet(call: MacroCall) -> str:
    return call.state.outlet(call.args[0])


def _ban(call: MacroCall) -> str:
    return host.ban(call.state, call.args[0])


def _has_extension(call: MacroCall) -> str:
    return host.has_extension(call.state, call.args[0])


def named(call: MacroCall) -> str:
    """Return the name of a variable, the first argument of a macro."""
    if not call.args[0]:
        raise MacroFailedError
    return call.args[0]


def _variable_macros(suffix: str, table: Callable[[MacroState], VariableTable]) -> dict[str, Macro]:
    """Return the macros of one scope."""

    def of(
        work: Callable[[VariableTable, str, Sequence[str]], str | None],
    ) -> Callable[[MacroCall], str]:
        def run(call: MacroCall) -> str:
            try:
                return work(table(call.state), named(call), call.args[1:]) or ""
            except VariablesFullError:
                raise too_large(call.state) from None

        return run

    def add(variables: VariableTable, name: str, rest: Sequence[str]) -> None:
        variables.add(name, rest[0])

    macros = {
        f"set{suffix}": Macro(of(lambda v, name, rest: v.set(name, rest[0])), 2, 2),
        f"add{suffix}": Macro(of(add), 2, 2),
        f"inc{suffix}": Macro(of(lambda v, name, _: v.step(name, 1)), 1, 1),
        f"dec{suffix}": Macro(of(lambda v, name, _: v.step(name, -1)), 1, 1),
        f"get{suffix}": Macro(of(lambda v, name, _: v.get(name)), 1, 1),
        f"has{suffix}": Macro(of(lambda v, name, _: str(v.has(name)).lower()), 1, 1),
        f"delete{suffix}": Macro(of(lambda v, name, _: v.delete(name)), 1, 1),
        f"set{suffix}key": Macro(of(lambda v, name, rest: v.set_key(name, *rest)), 3, 3),
        f"get{suffix}key": Macro(of(lambda v, name, rest: v.get_key(name, *rest)), 2, 2),
    }
    aliases = {
        f"{suffix}exists": f"has{suffix}",
        f"flush{suffix}": f"delete{suffix}",
        f"set{suffix}index": f"set{suffix}key",
        f"get{suffix}index": f"get{suffix}key",
    }
    return macros | {alias: macros[name] for alias, name in aliases.items()}


_ALIASES: Final[Mapping[str, str]] = {
    "charIfNotGroup": "group",
    "charDescription": "description",
    "charPersonality": "personality",
    "charScenario": "scenario",
    "creatorNotes": "charCreatorNotes",
    "greeting": "charFirstMessage",
    "version": "charVersion",
    "char_version": "charVersion",
    "idle_duration": "idleDuration",
    "maxPromptTokens": "maxPrompt",
    "maxContextTokens": "maxContext",
    "maxResponseTokens": "maxResponse",
    "instructSystem": "defaultSystemPrompt",
    "instructSystemPrompt": "defaultSystemPrompt",
    "chatSeparator": "exampleSeparator",
    "comment": COMMENT,
    **host.INSTRUCT_ALIASES,
}
_NAMED: Final[Mapping[str, Macro]] = {
    "user": Macro(lambda call: call.state.name_of("user")),
    "char": Macro(lambda call: call.state.name_of("char")),
    "group": _of_state(card.group),
    "groupNotMuted": _of_state(card.group_not_muted),
    "notChar": _of_state(card.not_char),
    "description": _of_card("description"),
    "personality": _of_card("personality"),
    "scenario": _of_card("scenario"),
    "persona": _of_card("persona"),
    "charDepthPrompt": _of_card("depth_prompt"),
    "charCreatorNotes": _of_card("creator_notes"),
    "charPrompt": _of_card("system_prompt"),
    "charInstruction": _of_card("post_history_instructions"),
    "charFirstMessage": Macro(_greeting, 0, 1, counts=True),
    "charVersion": Macro(_version),
    "mesExamplesRaw": _of_card("example_messages"),
    "mesExamples": Macro(_examples),
    "lastMessage": _of_state(chat.last_message),
    "lastMessageId": _of_state(chat.last_message_id),
    "lastUserMessage": _of_state(lambda state: chat.last_of(state, "user")),
    "lastCharMessage": _of_state(lambda state: chat.last_of(state, "character")),
    "firstIncludedMessageId": _of_state(host.first_included),
    "firstDisplayedMessageId": _of_state(host.first_displayed),
    "lastSwipeId": _of_state(chat.last_swipe_id),
    "currentSwipeId": _of_state(chat.current_swipe_id),
    "allChatRange": _of_state(chat.all_chat_range),
    "time": Macro(_time, 0, 1),
    "date": _format("LL"),
    "weekday": _format("dddd"),
    "isotime": _format("HH:mm"),
    "isodate": _format("YYYY-MM-DD"),
    "datetimeformat": Macro(_date_format, 1, 1),
    "idleDuration": _of_state(chat.idle_duration),
    "timeDiff": Macro(_time_difference, 2, 2),
    "random": Macro(_random, 0, None),
    "pick": Macro(_pick, 0, None),
    "roll": Macro(_roll, 1, 1),
    IF: Macro(_fail, 2, 2),  # the engine runs it, because only one branch is expanded
    ELSE: Macro(_vanish),
    COMMENT: Macro(_vanish, 1, 1),
    "trim": Macro(_trim, 0, 1),
    "noop": Macro(_vanish),
    "newline": Macro(_repeat("\n"), 0, 1, counts=True),
    "space": Macro(_repeat(" "), 0, 1, counts=True),
    "reverse": Macro(_reverse, 1, 1),
    "outlet": Macro(_outlet, 1, 1),
    "banned": Macro(_ban, 1, 1),
    "input": _of_host("input"),
    "maxPrompt": _of_state(host.max_prompt),
    "maxContext": _of_state(host.max_context),
    "maxResponse": _of_state(host.max_response),
    "model": _of_host("model"),
    "isMobile": _of_state(host.is_mobile),
    "hasExtension": Macro(_has_extension, 1, 1),
    "lastGenerationType": _of_state(host.last_generation_type),
    "systemPrompt": Macro(_system_prompt),
    "defaultSystemPrompt": _of_state(host.default_system_prompt),
    "exampleSeparator": _of_host("example_separator"),
    "chatStart": _of_host("chat_start"),
    "authorsNote": _of_host("chat_note"),
    "charAuthorsNote": _of_host("character_note"),
    "defaultAuthorsNote": _of_host("default_note"),
    "reasoningPrefix": _of_host("reasoning_prefix"),
    "reasoningSuffix": _of_host("reasoning_suffix"),
    "reasoningSeparator": _of_host("reasoning_separator"),
    "original": Macro(_fail),
    **{name: _instruct(texts) for name, texts in host.INSTRUCT.items()},
    **_variable_macros("var", lambda state: state.variables.local),
    **_variable_macros("globalvar", lambda state: state.variables.shared),
}
MACROS: Final[Mapping[str, Macro]] = {
    name.lower(): macro
    for name, macro in (
        *_NAMED.items(),
        *((alias, _NAMED[name]) for alias, name in _ALIASES.items()),
    )
}
