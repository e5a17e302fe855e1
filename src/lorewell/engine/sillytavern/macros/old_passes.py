"""The passes of the old macro engine, in their order (docs/rules/sillytavern-macros.md §4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from lorewell.engine.sillytavern.javascript import WHITESPACE, as_text, trim
from lorewell.engine.sillytavern.macros import card, chat, host
from lorewell.engine.sillytavern.macros.chance import draw_item, items_of_old, pick_item, roll
from lorewell.engine.sillytavern.macros.state import MacroFailedError, MacroState
from lorewell.engine.sillytavern.macros.table import too_large
from lorewell.engine.sillytavern.macros.variables import VariablesFullError, VariableTable

if TYPE_CHECKING:
    from lorewell.engine.sillytavern.macros.old_engine import OldExpansion

_IGNORE: Final = re.IGNORECASE | re.ASCII
_BLANK: Final = f"[{WHITESPACE}]"
# To keep the search linear, line breaks without {{trim}} after them are consumed as well.
_TRIM = re.compile(
    r"(?:\r?\n)++(?:(\{\{trim\}\})(?:\r?\n)*+)?|(\{\{trim\}\})(?:\r?\n)*+", re.IGNORECASE
)
_ANY_NAME = re.compile(r"\{\{([A-Za-z][A-Za-z0-9_-]*+)\}\}")


class StopPassError(Exception):
    """A pass breaks off: it changes no text, but its effects stay."""


class Match(NamedTuple):
    """A macro in a text.

    Attributes:
        start, end: its span.
        args: its arguments.
        text: the text.
    """

    start: int
    end: int
    args: tuple[str, ...]
    text: str


Find = Callable[[str], Iterator[Match]]
Run = Callable[[MacroState, "OldExpansion", Match], str]


class Pass(NamedTuple):
    """A pass over a text.

    Attributes:
        name: what its macros begin with, in lower case.
        find: yields its matches from left to right.
        run: returns the value of one.
        is_card: whether it is missing where a field of the card is expanded.
    """

    name: str
    find: Find
    run: Run
    is_card: bool = False


def _finds_name(name: str) -> Find:
    pattern = re.compile(rf"\{{\{{{re.escape(name)}\}}\}}", _IGNORE)

    def find(text: str) -> Iterator[Match]:
        for found in pattern.finditer(text):
            yield Match(found.start(), found.end(), (), text)

    return find


def _find_trim(text: str) -> Iterator[Match]:
    for found in _TRIM.finditer(text):
        if found[1] or found[2]:
            yield Match(found.start(), found.end(), (), text)


# Finds where an argument that begins at a place ends, given where the next closing brace or pair
# of braces is; returns the arguments, or None if there is no macro.
Read = Callable[[str, int, int], tuple[str, ...] | None]


def _finds(head: str, read: Read, *, closing: str = "}", least: int = 1) -> Find:
    """Return a search for macros with arguments.

    Each closing brace is looked for once, so the search is linear whatever the text holds.

    Args:
        head: pattern of what comes before the arguments.
        read: returns the arguments.
        closing: what the arguments do not hold.
        least: how many signs the arguments have at least.
    """
    pattern = re.compile(rf"\{{\{{{head}", _IGNORE)

    def find(text: str) -> Iterator[Match]:
        at, close = 0, -1
        while (found := pattern.search(text, at)) is not None:
            at = begin = found.end()
            earliest = begin + (least if closing == "}}" else 0)
            if close < earliest:
                close = text.find(closing, earliest)
                if close < 0:
                    return
            if close - begin < least or not text.startswith("}}", close):
                continue
            args = read(text, begin, close)
            if args is not None:
                at = close + 2
                yield Match(found.start(), at, args, text)

    return find


def _whole(text: str, begin: int, close: int) -> tuple[str, ...]:
    return (text[begin:close],)


def _one_line(text: str, begin: int, close: int) -> tuple[str, ...] | None:
    end = text.find("\n", begin, close)
    return None if end >= 0 else (text[begin:close],)


def _name_and_value(least: int) -> Read:
    name = re.compile(r"([^:}]+)::")

    def read(text: str, begin: int, close: int) -> tuple[str, ...] | None:
        found = name.match(text, begin, close)
        if found is None or close - found.end() < least:
            return None
        return found[1], text[found.end() : close]

    return read


def _two(text: str, begin: int, close: int) -> tuple[str, ...] | None:
    middle = text.find("::", begin, close)
    return None if middle < 0 else (text[begin:middle], text[middle + 2 : close])


def _find_banned(text: str) -> Iterator[Match]:
    """Yield bans, each up to the last `"}}` of its line."""
    head = re.compile(r'\{\{banned "', _IGNORE)
    at, line_end, close = 0, -1, -1
    while (found := head.search(text, at)) is not None:
        at = begin = found.end()
        if line_end < begin:
            line_end = text.find("\n", begin)
            line_end = len(text) if line_end < 0 else line_end
            close = text.rfind('"}}', begin, line_end)
        if close >= begin:
            at = close + 3
            yield Match(found.start(), at, (text[begin:close],), text)


def _of_state(name: str, value: Callable[[MacroState], str]) -> Pass:
    return Pass(name.lower(), _finds_name(name), lambda state, *_: value(state))


def _of_host(name: str, text: str) -> Pass:
    return _of_state(name, lambda state: state.host_text(text))


def _of_card(name: str, field: str) -> Pass:
    def run(_: MacroState, expansion: OldExpansion, __: Match) -> str:
        return expansion.field(field)

    return Pass(name.lower(), _finds_name(name), run, is_card=True)


def _vanishes(name: str, find: Find) -> Pass:
    return Pass(name, find, lambda *_: "")


def _instruct() -> Iterator[Pass]:
    for name, texts in host.INSTRUCT.items():
        names = [name, *(alias for alias, of in host.INSTRUCT_ALIASES.items() if of == name)]
        for each in names:
            # The old engine has these two aliases without "Prefix".
            old = each.removesuffix("Prefix") if each.endswith("OutputPrefix") else each
            yield _of_state(old, lambda state, texts=texts: host.instruct_text(state, texts))  # type: ignore[misc]  # binds `texts`


def _roll(state: MacroState, _: OldExpansion, match: Match) -> str:
    total = roll(match.args[0], state.draws, state.steps)
    if total is None:
        raise too_large(state)
    return total


def _system_prompt(state: MacroState, expansion: OldExpansion, _: Match) -> str:
    if not host.uses_system_prompt(state):
        return ""
    return expansion.field("system_prompt") or host.default_system_prompt(state)


def _variables(suffix: str, table: Callable[[MacroState], VariableTable]) -> Iterator[Pass]:
    """Yield the passes of the variables of one scope."""

    def of(work: Callable[[VariableTable, str, Sequence[str]], str | None]) -> Run:
        def run(state: MacroState, _: OldExpansion, match: Match) -> str:
            name = trim(match.args[0])
            if not name:
                raise StopPassError
            try:
                return work(table(state), name, match.args[1:]) or ""
            except VariablesFullError:
                raise too_large(state) from None

        return run

    def add(variables: VariableTable, name: str, rest: Sequence[str]) -> None:
        variables.add(name, rest[0])

    def step(variables: VariableTable, name: str, by: int) -> str:
        items = variables.add(name, by)
        return variables.get(name) if items is None else as_text(items)

    works: tuple[tuple[str, Find, Run], ...] = (
        (
            f"set{suffix}",
            _finds(rf"set{suffix}::", _name_and_value(0)),
            of(lambda v, name, rest: v.set(name, rest[0])),
        ),
        (f"add{suffix}", _finds(rf"add{suffix}::", _name_and_value(1)), of(add)),
        (
            f"inc{suffix}",
            _finds(rf"inc{suffix}::", _whole),
            of(lambda v, name, _: step(v, name, 1)),
        ),
        (
            f"dec{suffix}",
            _finds(rf"dec{suffix}::", _whole),
            of(lambda v, name, _: step(v, name, -1)),
        ),
        (f"get{suffix}", _finds(rf"get{suffix}::", _whole), of(lambda v, name, _: v.get(name))),
    )
    for name, find, run in works:
        yield Pass(name, find, run)


def _examples(state: MacroState, expansion: OldExpansion, _: Match) -> str:
    return card.example_blocks(state, expansion.field("example_messages"))


def _version(state: MacroState, _: OldExpansion, __: Match) -> str:
    return state.card_text("character_version")


def _swipe_id(state: MacroState) -> str:
    return chat.current_swipe_id(state) or "NaN"


def _random(state: MacroState, _: OldExpansion, match: Match) -> str:
    return draw_item(items_of_old(match.args[0]), state.draws)


def _pick(state: MacroState, expansion: OldExpansion, match: Match) -> str:
    seed = expansion.pick_seed(match)
    return pick_item(items_of_old(match.args[0]), seed, state.steps)


def _time_at(state: MacroState, _: OldExpansion, match: Match) -> str:
    return chat.time_at(state, f"UTC{match.args[0]}")


def _reversed(_: MacroState, __: OldExpansion, match: Match) -> str:
    return match.args[0][::-1]


def _formatted(name: str, pattern: str) -> Pass:
    return _of_state(name, lambda state: chat.local_time(state, pattern))


def _find_extra(text: str) -> Iterator[Match]:
    for found in _ANY_NAME.finditer(text):
        yield Match(found.start(), found.end(), (found[1],), text)


def _extra(state: MacroState, _: OldExpansion, match: Match) -> str:
    text = state.extra.get(match.args[0].lower())
    if text is None:
        raise MacroFailedError
    return text


def _sign(name: str, value: Callable[[MacroState], str]) -> Pass:
    pattern = re.compile(f"<{name}>", _IGNORE)

    def find(text: str) -> Iterator[Match]:
        for found in pattern.finditer(text):
            yield Match(found.start(), found.end(), (), text)

    return Pass(name, find, lambda state, *_: value(state))


SIGNS: Final[tuple[Pass, ...]] = (
    _sign("user", lambda state: state.name_of("user")),
    _sign("bot", lambda state: state.name_of("char")),
    _sign("char", lambda state: state.name_of("char")),
    _sign("group", card.group),
    _sign("charifnotgroup", card.group),
)
EXTRA: Final = Pass("", _find_extra, _extra)  # the last one
_LIST_HEAD: Final = rf"{_BLANK}?(?:::(?=[^}}])|:)"  # `::` before nothing is `:` and a list
PASSES: Final[tuple[Pass, ...]] = (
    Pass("roll", _finds(rf"roll(?:{_BLANK}|:)", _whole), _roll),
    *_instruct(),
    Pass("systemprompt", _finds_name("systemPrompt"), _system_prompt),
    *(
        _of_state(name, host.default_system_prompt)
        for name in ("defaultSystemPrompt", "instructSystem", "instructSystemPrompt")
    ),
    *_variables("var", lambda state: state.variables.local),
    *_variables("globalvar", lambda state: state.variables.shared),
    Pass("newline", _finds_name("newline"), lambda *_: "\n"),
    _vanishes("trim", _find_trim),
    _vanishes("noop", _finds_name("noop")),
    _of_host("input", "input"),
    _of_card("charPrompt", "system_prompt"),
    _of_card("charInstruction", "post_history_instructions"),
    _of_card("charJailbreak", "post_history_instructions"),
    _of_card("description", "description"),
    _of_card("personality", "personality"),
    _of_card("scenario", "scenario"),
    _of_card("persona", "persona"),
    Pass("mesexamples", _finds_name("mesExamples"), _examples, is_card=True),
    _of_card("mesExamplesRaw", "example_messages"),
    Pass("charversion", _finds_name("charVersion"), _version, is_card=True),
    Pass("char_version", _finds_name("char_version"), _version, is_card=True),
    _of_card("charDepthPrompt", "depth_prompt"),
    _of_card("creatorNotes", "creator_notes"),
    _of_state("user", lambda state: state.name_of("user")),
    _of_state("char", lambda state: state.name_of("char")),
    _of_state("group", card.group),
    _of_state("charIfNotGroup", card.group),
    _of_state("groupNotMuted", card.group_not_muted),
    _of_state("notChar", card.not_char_old),
    _of_host("model", "model"),
    _of_state("isMobile", host.is_mobile),
    _of_state("lastGenerationType", host.last_generation_type),
    _of_host("authorsNote", "chat_note"),
    _of_host("charAuthorsNote", "character_note"),
    _of_host("defaultAuthorsNote", "default_note"),
    *(_of_state(name, host.max_prompt) for name in ("maxPrompt", "maxPromptTokens")),
    *(_of_state(name, host.max_context) for name in ("maxContext", "maxContextTokens")),
    *(_of_state(name, host.max_response) for name in ("maxResponse", "maxResponseTokens")),
    _of_state("lastMessage", chat.last_message),
    _of_state("lastMessageId", chat.last_message_id),
    _of_state("lastUserMessage", lambda state: chat.last_of(state, "user")),
    _of_state("lastCharMessage", lambda state: chat.last_of(state, "character")),
    _of_state("firstIncludedMessageId", host.first_included),
    _of_state("firstDisplayedMessageId", host.first_displayed),
    _of_state("lastSwipeId", chat.last_swipe_id),
    _of_state("currentSwipeId", _swipe_id),
    _of_state("allChatRange", chat.all_chat_range),
    Pass("reverse", _finds("reverse:", _one_line, closing="}}"), _reversed),
    _vanishes("//", _finds("//", _whole, closing="}}", least=0)),
    _formatted("time", "LT"),
    _formatted("date", "LL"),
    _formatted("weekday", "dddd"),
    _formatted("isotime", "HH:mm"),
    _formatted("isodate", "YYYY-MM-DD"),
    Pass(
        "datetimeformat",
        _finds(rf"datetimeformat{_BLANK}++", _whole),
        lambda state, _, match: chat.local_time(state, match.args[0]),
    ),
    _of_state("idle_duration", chat.idle_duration),
    Pass("time_utc", _finds(r"time_UTC(?=[+-][0-9]+\}\})", _whole), _time_at),
    Pass(
        "outlet",
        _finds("outlet::", _whole, closing="}}"),
        lambda state, _, match: state.outlet(trim(match.args[0])),
    ),
    Pass(
        "timediff",
        _finds("timeDiff::", _two, closing="}}"),
        lambda state, _, match: chat.time_difference(state, *match.args),
    ),
    Pass("banned", _find_banned, lambda state, _, match: host.ban(state, match.args[0])),
    Pass("random", _finds(f"random{_LIST_HEAD}", _whole), _random),
    Pass("pick", _finds(f"pick{_LIST_HEAD}", _whole), _pick),
)
