"""Lorewell as an engine for the runner: answers each line of JSON on stdin with one on stdout.

Also an example of an adapter: it translates the runner's requests and its own answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from lorewell import Attached, Library, SillyTavernRequest, SillyTavernResponse, activate
from lorewell.engine.sillytavern.world import compile_world, world_entries
from lorewell.errors import LorewellError
from lorewell.model.activate import BookSource
from lorewell.model.activated import Event, Loop
from lorewell.model.parse import parse_model

Object = dict[str, Any]

STATES = {"stop": 0, "initial": 1, "recursion": 2, "min_activations": 3}
TEXTS = {
    "personaDescription": "persona_description",
    "characterDescription": "character_description",
    "characterPersonality": "character_personality",
    "characterDepthPrompt": "character_depth_prompt",
    "scenario": "scenario",
    "creatorNotes": "creator_notes",
}
CARD = {
    "description": "description",
    "personality": "personality",
    "scenario": "scenario",
    "firstMessage": "first_message",
    "mesExamples": "example_messages",
    "systemPrompt": "system_prompt",
    "postHistoryInstructions": "post_history_instructions",
    "version": "character_version",
    "creatorNotes": "creator_notes",
    "depthPrompt": "depth_prompt",
}
# The members that each kind of event lists after its kind; our events have more.
LISTED = {
    "loop": ("number",),
    "primary": ("entry", "key"),
    "primary_then_secondary": ("entry", "key"),
    "and_any": ("entry", "key"),
    "not_all": ("entry", "key"),
    "group_already_active": ("group",),
    "group_lost": ("entry",),
    "group_cooldown_removed": ("group", "entry"),
    "group_lost_to_sticky": ("entry", "group"),
    "group_lost_score": ("entry", "group"),
    "group_prio_winner": ("entry", "group"),
    "group_roll_winner": ("entry", "group"),
    "budget_overflow": ("limit", "number"),
    "min_activations_advance": ("number",),
    "min_activations_out_of_depth": (),
    "next_delay_level": ("number",),
    "max_recursion_steps": (),
    "timed_removed": ("timer", "why"),
}
OWN_EVENTS = (
    "budget_refused",
    "group_taken",
    "group_mistaken",
    "regex_timeout",
    "regex_unsupported",
    "value_missing",
    "time_missing",
    "macro_too_large",
)


class TokenTable:
    """A token counter with the counts of SillyTavern; any other text is an error."""

    name = "table"

    def __init__(self, counts: Mapping[str, int]) -> None:
        """Take the token counts of all texts."""
        self._counts = counts

    def count(self, text: str) -> int:
        """Return the tokens of a text, or raise KeyError."""
        return self._counts[text]


def library_of(request: Object) -> Library:
    """Return the books with their bindings."""
    attach = request["attach"]
    character = attach["character"] or {}
    bound: list[tuple[BookSource, str | None]] = [
        *(("global", name) for name in attach["global"]),
        ("chat", attach["chat"]),
        ("persona", attach["persona"]),
        ("character", character.get("world")),
        *(("character", name) for name in character.get("extra", [])),
    ]
    worlds = {
        name: compile_world(name, world_entries(book["entries"]))
        for name, book in request["books"].items()
    }
    return Library(
        Attached(source, worlds[name]) for source, name in bound if name and name in worlds
    )


def request_of(request: Object) -> SillyTavernRequest:
    """Return the request as a `SillyTavernRequest`."""
    attach, given = request["attach"], request["globalScanData"]
    avatar = (attach["character"] or {}).get("avatar")
    inputs = request["macroInputs"]
    document = {
        "settings": {**request["settings"], "token_counting": "plain"},  # `tokenCounts` are final
        "chat": [{"content": text} for text in reversed(request["chat"])],
        "scan_texts": {ours: given[theirs] for theirs, ours in TEXTS.items()},
        "macros": macros_of(request),
        "variables": {} if inputs is None else inputs.get("variables", {}),
        "character": avatar and {"avatar": avatar, "tags": attach["tagMap"].get(avatar, [])},
        "trigger": given["trigger"],
        "prompts": request["extensionPrompts"],
        "authors_note": request["authorsNote"],
        "context_tokens": request["maxContext"],
        "draws": request["rng"],
        "timed_state": request["timedState"] or {},
        "forced": request["force"],
        "dry_run": request["dryRun"],
    }
    return parse_model(SillyTavernRequest, document)


def macros_of(request: Object) -> Object:
    """Return the values of the macros: names and card, and what the cases of macros add."""
    inputs, card = request["macroInputs"], request["card"]
    if inputs is None:
        return {**request["names"], **card}
    has_character = request["attach"]["character"] is not None
    metadata = inputs.get("chatMetadata", {})
    values = {
        **request["names"],
        **{ours: card.get(theirs, "") for theirs, ours in CARD.items() if has_character},
        "persona": card.get("persona", ""),
        "alternate_greetings": card.get("alternateGreetings", []) if has_character else None,
        "chat_scenario": metadata.get("scenario") if has_character else None,
        "messages": [_message(each) for each in inputs.get("messages", [])],
        "group_members": _members(inputs.get("group")),
        "chat_id": inputs.get("chatId"),
        "main_chat_id": metadata.get("main_chat"),
        "chat_hash": metadata.get("chat_id_hash"),
        "reroll_seed": metadata.get("pick_reroll_seed"),
        "first_included_message": metadata.get("lastInContextMessageId"),
        "host": _host(inputs.get("host", {})),
    }
    clock = inputs.get("clock")
    if clock is None:
        return values
    hours, minutes = divmod(abs(clock["utcOffset"]), 60)
    zone = f"{'-' if clock['utcOffset'] < 0 else '+'}{hours:02}:{minutes:02}"
    return {**values, "time": clock["now"], "timezone": zone}


def _message(message: Object) -> Object:
    role = "user" if message["is_user"] else "character"
    swipes = message.get("swipes")
    return {
        "content": message["mes"],
        "role": "system" if message["is_system"] else role,
        "swipes": None if swipes is None else len(swipes),
        "swipe": message.get("swipe_id"),
        "sent": message.get("send_date"),
    }


def _members(group: Object | None) -> list[Object] | None:
    if group is None:
        return None
    shown = ("name", "muted", "missing")
    return [{name: member[name] for name in shown if name in member} for member in group["members"]]


def _host(host: Object) -> Object:
    notes, context = host.get("authorsNote", {}), host.get("context", {})
    reasoning = host.get("reasoning", {})
    return {
        "input": host.get("input", ""),
        "max_context_tokens": host.get("maxContext", 4096),
        "max_response_tokens": host.get("maxResponse", 300),
        "model": host.get("model", ""),
        "is_mobile": host.get("isMobile", False),
        "last_generation_type": host.get("lastGenerationType"),
        "first_displayed_message": host.get("firstDisplayedMessageId"),
        "completion": "text" if host.get("api") == "textgenerationwebui" else "chat",
        "extensions": host.get("extensions", {}),
        "instruct": host.get("instruct", {}),
        "system_prompt": host.get("sysprompt", {}),
        "example_separator": context.get("example_separator", "***"),
        "chat_start": context.get("chat_start", "***"),
        "chat_note": notes.get("chat", ""),
        "character_note": notes.get("character", ""),
        "default_note": notes.get("default", ""),
        "reasoning_prefix": reasoning.get("prefix", ""),
        "reasoning_suffix": reasoning.get("suffix", ""),
        "reasoning_separator": reasoning.get("separator", ""),
        "prefer_character_prompt": host.get("preferCharacterPrompt", True),
        "prefer_character_instructions": host.get("preferCharacterJailbreak", True),
    }


def runner_answer(answer: SillyTavernResponse) -> Object:
    """Return the answer in the runner's format."""
    return {
        "activated": [entry.id for entry in answer.activated],
        "worldInfoBefore": answer.world_info_before,
        "worldInfoAfter": answer.world_info_after,
        "EMEntries": [each._asdict() for each in answer.examples],
        "WIDepthEntries": [
            {**({"depth": g.depth} if g.has_depth else {}), "role": g.role, "entries": [*g.entries]}
            for g in answer.depth_groups
        ],
        "ANBeforeEntries": list(answer.authors_note_top),
        "ANAfterEntries": list(answer.authors_note_bottom),
        "outletEntries": {name: list(texts) for name, texts in answer.outlets.items()},
        "authorsNote": answer.authors_note,
        "timedState": answer.timed_state,
        "budget": answer.budget.limit,
        "overflowed": answer.budget.overflowed,
        "drawsUsed": answer.draws_used,
        "variables": answer.variables,
        "banned": list(answer.banned),
        "chatIdHash": answer.chat_hash,
        "loops": [_loop(loop) for loop in answer.loops],
        "events": [_event(event) for event in answer.events if event.kind not in OWN_EVENTS],
    }


def _loop(loop: Loop) -> Object:
    return {
        "state": STATES[loop.state],
        "next": STATES[loop.next],
        "candidates": list(loop.candidates),
        "successful": list(loop.successful),
        "activatedTotal": loop.active,
        "overflowed": loop.overflowed,
        "delayLevel": loop.level,
    }


def _event(event: Event) -> list[Any]:
    return [event.kind, *(getattr(event, name) for name in LISTED.get(event.kind, ("entry",)))]


def answer_to(request: Object) -> Object:
    """Return the answer to a request, or `{"error": …}`."""
    try:
        counter = TokenTable(request["tokenCounts"])
        return runner_answer(activate(library_of(request), request_of(request), counter=counter))
    except LorewellError as error:
        return {"error": str(error)}
    except KeyError as error:
        return {"error": f"SillyTavern did not count this text: {error}"}


def main() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer_to(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
