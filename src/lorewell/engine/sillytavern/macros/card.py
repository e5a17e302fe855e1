"""Macros of names and of the character card (docs/rules/sillytavern-macros.md §5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lorewell.engine.sillytavern.javascript import trim
from lorewell.engine.sillytavern.macros.state import MacroState
from lorewell.model.macro_values import GroupMember

START: Final = "<START>"
_START = re.compile(re.escape(START), re.IGNORECASE)
# The card's fields whose texts are expanded, as the old engine goes through them.
EXPANDED_FIELDS: Final = (
    *("system_prompt", "post_history_instructions", "description", "personality", "scenario"),
    *("persona", "example_messages", "depth_prompt", "creator_notes"),
)


def _present(state: MacroState) -> Sequence[GroupMember] | None:
    members = state.values.group_members
    return None if members is None else [each for each in members if not each.missing]


def group(state: MacroState) -> str:
    """Return the names of all members; outside of groups the character's."""
    members = _present(state)
    if members is None:
        return state.name_of("char")
    return ", ".join(each.name for each in members)


def group_not_muted(state: MacroState) -> str:
    """Return the names of the members that are not muted; outside of groups the character's."""
    members = _present(state)
    if members is None:
        return state.name_of("char")
    return ", ".join(each.name for each in members if not each.muted)


def not_char(state: MacroState) -> str:
    """Return the names of the other members that are not muted; outside of groups the user's."""
    members = _present(state)
    if members is None:
        return state.name_of("user")
    own = state.name_of("char")
    return ", ".join(each.name for each in members if not each.muted and each.name != own)


def not_char_old(state: MacroState) -> str:
    """Return the names of all other members and of the user; outside of groups the user's."""
    members = _present(state)
    if members is None:
        return state.name_of("user")
    own = state.name_of("char")
    others = [each.name for each in members if each.name != own]
    return ", ".join([*others, state.name_of("user")])


def field_text(state: MacroState, name: str) -> str:
    """Return a field of the card that is about to be expanded; the chat's scenario goes first."""
    if name == "scenario" and state.values.chat_scenario:
        return trim(state.values.chat_scenario)
    return trim(state.card_text(name))


def is_preferred(state: MacroState, name: str) -> bool:
    """Return whether the user wants a field of the card to be used."""
    match name:
        case "system_prompt":
            return state.host.prefer_character_prompt
        case "post_history_instructions":
            return state.host.prefer_character_instructions
    return True


def greeting(state: MacroState, index: int) -> str:
    """Return the first message as written, or an alternate one, counted from 1."""
    if index == 0:
        return state.card_text("first_message")
    greetings = state.given("alternate_greetings", state.values.alternate_greetings, ())
    return greetings[index - 1] if 0 < index <= len(greetings) else ""


def example_blocks(state: MacroState, examples: str) -> str:
    """Return the example dialogues, expanded, each with its heading."""
    if not examples:
        return ""
    if not _START.match(examples):
        examples = f"{START}\n{examples}"
    heading = START
    if state.host.completion == "text":
        heading = state.host_text("example_separator")
    head = f"{heading}\n" if heading else ""
    return "".join(f"{head}{trim(block)}\n" for block in _START.split(examples)[1:])
