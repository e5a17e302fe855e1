"""The policy `sillytavern` against the golden corpus; README.md in the folder has the format.

`LOREWELL_GOLDEN_ST` names another folder of the same format.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from golden.cases import HERE, Case, as_params
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.world import World, compile_world, world_entries
from lorewell.model.activate import BookSource, SillyTavernRequest
from lorewell.model.activated import Event, Loop, SillyTavernResponse
from lorewell.model.parse import parse_model
from world_info import expand

FOLDER = Path(os.environ.get("LOREWELL_GOLDEN_ST") or HERE / "sillytavern")
CASES = as_params(list(FOLDER.glob("*.json")))

STATES = {"stop": 0, "initial": 1, "recursion": 2, "min_activations": 3}
TEXTS = {
    "personaDescription": "persona_description",
    "characterDescription": "character_description",
    "characterPersonality": "character_personality",
    "characterDepthPrompt": "character_depth_prompt",
    "scenario": "scenario",
    "creatorNotes": "creator_notes",
}
# What each kind of event lists after its kind; ours know more.
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
OURS = ("budget_refused", "group_taken", "group_mistaken", "regex_timeout", "regex_unsupported")
UID_ALONE = ("probability_passed", "probability_failed", "delay_level")


class Table:
    """Counts what SillyTavern counted; any other text is a fault."""

    name = "table"

    def __init__(self, counts: dict[str, int]) -> None:
        self.count = counts.__getitem__


def worlds_of(case: Case) -> dict[str, World]:
    return {
        name: compile_world(
            name,
            world_entries(book["entries"])
            if book.get("raw")
            else [expand(entry) for entry in world_entries(book["entries"])],
        )
        for name, book in case["books"].items()
    }


def library_of(case: Case) -> Library:
    attach, worlds = case["attach"], worlds_of(case)
    character = attach.get("character") or {}
    bound: list[tuple[BookSource, Any]] = [
        *(("global", name) for name in attach.get("global", [])),
        ("chat", attach.get("chat")),
        ("persona", attach.get("persona")),
        ("character", character.get("world")),
        *(("character", name) for name in character.get("extra", [])),
    ]
    return Library(Attached(source, worlds[name]) for source, name in bound if name in worlds)


def request_of(case: Case, step: Case, state: Any, forced: Any) -> SillyTavernRequest:
    character = case["attach"].get("character")
    given = step.get("globalScanData") or {}
    tags = case["attach"].get("tagMap", {})
    document = {
        "settings": case["settings"],
        "chat": [{"content": text} for text in reversed(step["chat"])],
        "scan_texts": {TEXTS[name]: text for name, text in given.items() if name in TEXTS},
        "macros": {**case["names"], **case["card"]},
        "character": character
        and {"avatar": character["avatar"], "tags": tags.get(character["avatar"], [])},
        "trigger": given.get("trigger", "normal"),
        "prompts": step.get("extensionPrompts", []),
        "authors_note": step.get("authorsNote"),
        "context_tokens": step["maxContext"],
        "draws": step["rng"],
        "timed_state": state or {},
        "forced": [*forced, *step.get("force", [])],
        "dry_run": step["dryRun"],
    }
    return parse_model(SillyTavernRequest, document)


def told(event: Event) -> list[Any]:
    if event.kind in UID_ALONE:
        return [event.kind, str(event.entry).rsplit(".")[-1]]
    return [event.kind, *(getattr(event, name) for name in LISTED.get(event.kind, ("entry",)))]


def listed(event: list[Any]) -> list[Any]:
    return [event[0], event[1].rsplit(".")[-1]] if event[0] in UID_ALONE else event


def loop_of(loop: Loop) -> Case:
    return {
        "state": STATES[loop.state],
        "next": STATES[loop.next],
        "candidates": list(loop.candidates),
        "successful": list(loop.successful),
        "activatedTotal": loop.active,
        "overflowed": loop.overflowed,
        "delayLevel": loop.level,
    }


def as_expected(answer: SillyTavernResponse) -> Case:
    return {
        "error": None,
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
        "loops": [loop_of(loop) for loop in answer.loops],
        "events": [told(event) for event in answer.events if event.kind not in OURS],
    }


def test_folder_holds_cases() -> None:
    """A wrong folder is a failure, not a silent pass."""
    assert CASES


@pytest.mark.parametrize("case", CASES)
def test_golden_case(case: Case) -> None:
    """Every step gives what SillyTavern gave, for its reasons, and consumes all of its draws."""
    library = library_of(case)
    state, forced = case["timedState"], []
    for step in case["steps"]:
        expected = step["expected"]
        if expected["error"] is not None:  # groups-063: a group named like a built-in property
            pytest.skip("SillyTavern itself throws here, and its answer is of no use")
        request = request_of(case, step, state, forced)
        answer = activate(library, request, counter=Table(step["tokenCounts"]))
        expected = {**expected, "events": [listed(event) for event in expected["events"]]}
        assert as_expected(answer) == expected
        assert answer.draws_used == len(step["rng"])
        state, forced = answer.timed_state, list(answer.forced)
