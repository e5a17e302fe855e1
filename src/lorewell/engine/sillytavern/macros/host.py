"""Macros of the chat program's state (docs/rules/sillytavern-macros.md §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lorewell.engine.sillytavern.macros.state import MacroState

# The texts of the instruct template by macro; the second one is used if the first is empty.
INSTRUCT: Final[Mapping[str, tuple[str, ...]]] = {
    "instructStoryStringPrefix": ("story_string_prefix",),
    "instructStoryStringSuffix": ("story_string_suffix",),
    "instructUserPrefix": ("input_sequence",),
    "instructUserSuffix": ("input_suffix",),
    "instructAssistantPrefix": ("output_sequence",),
    "instructAssistantSuffix": ("output_suffix",),
    "instructSystemPrefix": ("system_sequence",),
    "instructSystemSuffix": ("system_suffix",),
    "instructFirstAssistantPrefix": ("first_output_sequence", "output_sequence"),
    "instructLastAssistantPrefix": ("last_output_sequence", "output_sequence"),
    "instructStop": ("stop_sequence",),
    "instructUserFiller": ("user_alignment_message",),
    "instructSystemInstructionPrefix": ("last_system_sequence",),
    "instructFirstUserPrefix": ("first_input_sequence", "input_sequence"),
    "instructLastUserPrefix": ("last_input_sequence", "input_sequence"),
}
INSTRUCT_ALIASES: Final[Mapping[str, str]] = {
    "instructInput": "instructUserPrefix",
    "instructOutput": "instructAssistantPrefix",
    "instructSeparator": "instructAssistantSuffix",
    "instructFirstOutputPrefix": "instructFirstAssistantPrefix",
    "instructLastOutputPrefix": "instructLastAssistantPrefix",
    "instructFirstInput": "instructFirstUserPrefix",
    "instructLastInput": "instructLastUserPrefix",
}
_NORMAL: Final = "normal"


def instruct_text(state: MacroState, names: tuple[str, ...]) -> str:
    """Return a text of the instruct template; "" if instruct mode is off."""
    template = state.given("host.instruct", state.host.instruct, None)
    if template is None or not template.enabled:
        return ""
    texts: list[str] = [getattr(template, name) for name in names]
    return next(filter(None, texts), "")


def default_system_prompt(state: MacroState) -> str:
    """Return the user's system prompt; "" if it is off."""
    prompt = state.given("host.system_prompt", state.host.system_prompt, None)
    return prompt.content if prompt is not None and prompt.enabled else ""


def uses_system_prompt(state: MacroState) -> bool:
    """Return whether system prompts are on."""
    prompt = state.given("host.system_prompt", state.host.system_prompt, None)
    return prompt is not None and prompt.enabled


def max_context(state: MacroState) -> str:
    """Return the size of the context in tokens."""
    return str(state.context_tokens)


def max_response(state: MacroState) -> str:
    """Return the tokens reserved for the reply."""
    size = state.given("host.max_response_tokens", state.host.max_response_tokens, None)
    return "" if size is None else str(size)


def max_prompt(state: MacroState) -> str:
    """Return the tokens left for the prompt."""
    size = state.given("host.max_response_tokens", state.host.max_response_tokens, None)
    return "" if size is None else str(state.context_tokens - size)


def is_mobile(state: MacroState) -> str:
    """Return whether the program runs on a phone."""
    mobile = state.given("host.is_mobile", state.host.is_mobile, None)
    return "" if mobile is None else str(mobile).lower()


def has_extension(state: MacroState, name: str) -> str:
    """Return whether an extension is installed and on."""
    extensions = state.given("host.extensions", state.host.extensions, {})
    wanted = name.lower()
    return str(any(on and each.lower() == wanted for each, on in extensions.items())).lower()


def last_generation_type(state: MacroState) -> str:
    """Return the kind of the last generation."""
    kind = state.given("host.last_generation_type", state.host.last_generation_type, None)
    return "" if kind is None else kind or _NORMAL


def first_included(state: MacroState) -> str:
    """Return the index of the first message in the last prompt."""
    index = state.given("first_included_message", state.values.first_included_message, None)
    return "" if index is None else str(index)


def first_displayed(state: MacroState) -> str:
    """Return the index of the first message on screen."""
    index = state.given("host.first_displayed_message", state.host.first_displayed_message, None)
    return "" if index is None else str(index)


def ban(state: MacroState, word: str) -> str:
    """Ban a word, without one quote at each end, if the back end is a text completion."""
    if state.host.completion == "text":
        state.banned.append(word.removeprefix('"').removesuffix('"'))
    return ""
