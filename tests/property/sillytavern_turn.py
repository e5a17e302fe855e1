"""What SillyTavern's scan looks at, for its oracle: entries, texts, timed effects, checks.

Source: docs/rules/sillytavern.md; the sections are named at the functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, cmp_to_key
from typing import Any

from property.sillytavern_macros import Values, expand, expand_old
from property.sillytavern_words import (
    MISSING,
    hash_of,
    holds,
    is_loosely_true,
    is_same,
    number,
    object_order,
    or_else,
    string,
    trim,
    truthy,
)
from world_info import expand as expand_entry

Lore = dict[str, Any]  # one entry
Case = dict[str, Any]

JOINT = "\n\x01"
STOP, INITIAL, RECURSION, MIN_ACTIVATIONS = range(4)
DEFAULTS = {
    "world_info_depth": 2,
    "world_info_min_activations": 0,
    "world_info_min_activations_depth_max": 0,
    "world_info_budget": 25,
    "world_info_budget_cap": 0,
    "world_info_recursive": True,
    "world_info_case_sensitive": False,
    "world_info_match_whole_words": True,
    "world_info_use_group_scoring": False,
    "world_info_character_strategy": 1,
    "world_info_max_recursion_steps": 0,
}
TEXTS = {
    "matchPersonaDescription": "personaDescription",
    "matchCharacterDescription": "characterDescription",
    "matchCharacterPersonality": "characterPersonality",
    "matchCharacterDepthPrompt": "characterDepthPrompt",
    "matchScenario": "scenario",
    "matchCreatorNotes": "creatorNotes",
}


# §3, §5: collecting and sorting


def by_order(entries: Sequence[Lore]) -> list[Lore]:
    def compare(one: Lore, other: Lore) -> int:
        gap = number(other.get("order", MISSING)) - number(one.get("order", MISSING))
        return (gap > 0) - (gap < 0)  # NaN is neither

    return sorted(entries, key=cmp_to_key(compare))


def split_decorators(content: str) -> tuple[list[str], str]:
    known: list[str] = []
    fallback = False
    lines = content.split("\n")
    for index, line in enumerate(lines):
        if not line.startswith("@@"):
            return known, "\n".join(lines[index:])
        if line.startswith("@@@") and not fallback:
            continue
        name = line[1:] if line.startswith("@@@") else line
        fallback = not name.startswith(("@@activate", "@@dont_activate"))
        if not fallback:
            known.append(name)
    return known, content


def entries_of(case: Case, name: str) -> list[Lore]:
    book = case["books"].get(name, {"entries": {}})
    found = []
    for listed in object_order(book["entries"]).values():
        entry = listed if book.get("raw") else expand_entry(listed)
        head = {"uid": entry["uid"]} if "uid" in entry else {}
        rest = {key: value for key, value in entry.items() if key != "uid"}
        found.append({**head, "world": name, **rest})
    return found


def prepared(entry: Lore) -> Lore:
    decorators, content = split_decorators(entry.get("content") or "")
    entry["decorators"] = decorators
    entry["content"] = content
    entry["hash"] = hash_of(entry)
    return entry


def collected(case: Case, strategy: Any) -> list[Lore]:
    attach = case["attach"]
    chosen = attach.get("global", [])
    chat, persona = attach.get("chat"), attach.get("persona")
    character = attach.get("character") or {}
    own = dict.fromkeys(name for name in [character.get("world"), *character.get("extra", [])])

    def lore(names: Sequence[Any], without: Sequence[Any]) -> list[Lore]:
        kept = [name for name in names if name and name not in without]
        return [entry for name in kept for entry in entries_of(case, name)]

    of_all = lore(chosen, [])
    of_chat = lore([chat], chosen)
    of_persona = lore([persona], [chat, *chosen])
    of_character = lore(list(own), [*chosen, chat, persona])
    if strategy == 1:
        rest = by_order(of_character) + by_order(of_all)
    elif strategy == 2:
        rest = by_order(of_all) + by_order(of_character)
    else:
        rest = by_order(of_all + of_character)
    return [prepared(entry) for entry in by_order(of_chat) + by_order(of_persona) + rest]


def name_of(entry: Lore) -> str:
    return f"{string(entry['world'])}.{string(entry.get('uid', MISSING))}"


def is_in(entry: Lore, entries: Sequence[Lore]) -> bool:
    return any(each is entry for each in entries)


@dataclass
class Turn:
    """One turn: its texts, timed effects and checks, and what a scan remembers while it runs."""

    case: Case
    step: Case
    count: Callable[[str], int]
    timed: Case
    variables: dict[str, dict[str, Any]] = field(default_factory=lambda: {".": {}, "$": {}})
    queue: dict[str, Lore] = field(default_factory=dict)
    entries: list[Lore] = field(default_factory=list)
    events: list[list[Any]] = field(default_factory=list)
    loops: list[Case] = field(default_factory=list)
    injected: list[str] = field(default_factory=list)
    recursion: list[str] = field(default_factory=list)
    active: dict[str, Lore] = field(default_factory=dict)
    failed: list[Lore] = field(default_factory=list)
    levels: list[float] = field(default_factory=list)
    running: dict[str, list[Any]] = field(
        default_factory=lambda: {"sticky": [], "cooldown": [], "delay": []}
    )
    state: int = INITIAL
    skew: int = 0
    level: float = 0
    draws: int = 0
    budget: int | None = None
    overflow: bool = False
    active_text: str = ""

    def setting(self, name: str) -> Any:
        return self.case["settings"].get(f"world_info_{name}", DEFAULTS[f"world_info_{name}"])

    @property
    def length(self) -> int:
        return len(self.step["chat"])

    def tokens(self, text: str) -> int:
        return self.count(text) if text else 0

    def draw(self) -> float:
        self.draws += 1
        drawn: float = self.step["rng"][self.draws - 1]
        return drawn

    def macros(self, text: str) -> str:
        engine = self.case["settings"].get("macro_engine", "old")
        return (expand if engine == "new" else expand_old)(text, self.values)

    @cached_property
    def values(self) -> Values:
        """What macros read and set in this turn."""
        card = self.case["card"]
        if "macroInputs" in self.case and "character" not in self.case["attach"]:
            card = {"persona": card["persona"]}
        return Values(self.case["names"], card, self.variables, self.draw)

    def say(self, *event: Any) -> None:
        self.events.append(list(event))

    # §11: timed effects

    def clean_timed(self) -> None:
        for kind in ("sticky", "cooldown"):
            stored = self.timed.get(kind)
            stored = stored if isinstance(stored, dict) else {}
            kept = {key: dict(each) for key, each in stored.items() if isinstance(each, dict)}
            self.timed[kind] = kept

    def check_timed(self) -> None:
        for kind in ("sticky", "cooldown"):
            for key, effect in list(object_order(self.timed[kind]).items()):
                why = self.end_of(kind, key, effect)
                if why == "active":
                    self.running[kind].append(effect["hash"])
                elif why:
                    self.say("timed_removed", kind, why)

    def check_delays(self) -> None:
        for entry in self.entries:
            if truthy(entry.get("delay")) and self.length < number(entry["delay"]):
                self.running["delay"].append(entry["hash"])

    def end_of(self, kind: str, key: str, effect: Case) -> str:
        stored, over = self.timed[kind], self.length >= effect["end"]
        found = [entry for entry in self.entries if entry["hash"] == effect.get("hash")]
        if self.length <= effect["start"] and not effect["protected"]:
            del stored[key]
            return "chat_not_advanced"
        if not found:
            if over:
                del stored[key]
            return "missing_entry" if over else ""
        if not truthy(found[0].get(kind)):
            del stored[key]
            return "not_configured"
        if over:
            del stored[key]
            if kind == "sticky" and truthy(found[0].get("cooldown")):
                self.timed["cooldown"][key] = self.effect(found[0], "cooldown", protected=True)
            return "expired"
        return "active"

    def effect(self, entry: Lore, kind: str, *, protected: bool) -> Case:
        mark = {"hash": entry["hash"]} if "hash" in entry else {}
        end = self.length + number(entry[kind])
        return {**mark, "start": self.length, "end": end, "protected": protected}

    def set_timed(self) -> None:
        for key, entry in self.active.items():
            for kind in ("sticky", "cooldown"):
                if truthy(entry.get(kind)) and key not in self.timed[kind]:
                    self.timed[kind][key] = self.effect(entry, kind, protected=False)

    def is_running(self, kind: str, entry: Lore) -> bool:
        """Return whether an effect is active, judged by the hash."""
        return "hash" in entry and entry["hash"] in self.running[kind]

    # §6, §7: texts and keys

    def text_for(self, entry: Lore) -> str:
        depth = number(or_else(entry.get("scanDepth"), self.setting("depth") + self.skew))
        if depth <= 0:
            return ""
        buffer = [trim(message) for message in self.step["chat"][:1000]]
        lasting = [index for index, message in enumerate(self.step["chat"][:1000]) if message]
        buffer = buffer[: lasting[-1] + 1] if lasting else []
        text = "\x01" + JOINT.join(buffer[: int(min(depth, 1000))])
        given = self.step.get("globalScanData") or {}
        for flag, name in TEXTS.items():
            if truthy(entry.get(flag)) and given.get(name):
                text += JOINT + given[name]
        if self.injected:
            text += JOINT + JOINT.join(self.injected)
        if self.recursion and self.state != MIN_ACTIVATIONS:
            text += JOINT + JOINT.join(self.recursion)
        return text

    def finds(self, entry: Lore, key: str) -> bool:
        return holds(
            self.text_for(entry),
            key,
            case_sensitive=truthy(
                or_else(entry.get("caseSensitive"), self.setting("case_sensitive"))
            ),
            whole_words=truthy(
                or_else(entry.get("matchWholeWords"), self.setting("match_whole_words"))
            ),
        )

    def finds_expanded(self, entry: Lore, key: str) -> bool:
        return bool(key) and self.finds(entry, trim(key))

    def secondary(self, entry: Lore) -> list[Any] | None:
        """Return the event of what the secondary keys say, or None if they are not met."""
        name = name_of(entry)
        logic = or_else(entry.get("selectiveLogic"), 0)
        there, absent = False, False
        for key in entry["keysecondary"]:
            expanded = self.macros(key)
            is_there = self.finds_expanded(entry, expanded)
            if is_same(logic, 0) and is_there:
                return ["and_any", name, expanded]
            if is_same(logic, 1) and not is_there:
                return ["not_all", name, expanded]
            there, absent = there or is_there, absent or not is_there
        if is_same(logic, 2) and not there:
            return ["not_any", name]
        if is_same(logic, 3) and not absent:
            return ["and_all", name]
        return None

    # §9: the checks of an entry

    def stopped(self, entry: Lore) -> str | None:
        sticky, delayed = self.is_running("sticky", entry), entry.get("delayUntilRecursion")
        if is_loosely_true(entry.get("disable", MISSING)):
            return "disabled"
        triggers = entry.get("triggers")
        given = (self.step.get("globalScanData") or {}).get("trigger", "normal")
        if isinstance(triggers, list) and triggers and given not in triggers:
            return "trigger_filter"
        unfit = self.unfit(entry)
        if unfit:
            return unfit
        if self.is_running("delay", entry):
            return "delay"
        if self.is_running("cooldown", entry) and not sticky:
            return "cooldown"
        if self.state != RECURSION and truthy(delayed) and not sticky:
            return "delay_until_recursion"
        if self.state != RECURSION or sticky:
            return None
        if truthy(delayed) and number(delayed) > self.level:
            return "delay_level"
        if truthy(self.setting("recursive")) and truthy(entry.get("excludeRecursion")):
            return "exclude_recursion"
        return None

    def unfit(self, entry: Lore) -> str | None:
        wanted = entry.get("characterFilter") or {}
        excludes = truthy(wanted.get("isExclude"))
        character = self.case["attach"].get("character")
        if wanted.get("names"):
            name = re.sub(r"\.[^/.]+$", "", character["avatar"]) if character else None
            if (name in wanted["names"]) == excludes:
                return "character_filter"
        if wanted.get("tags") and character:
            tags = self.case["attach"].get("tagMap", {}).get(character["avatar"], [])
            if any(tag in wanted["tags"] for tag in tags) == excludes:
                return "tag_filter"
        return None

    def judged(self, entry: Lore) -> Lore | None:
        """Return the candidate that the entry gives, if it does."""
        name = name_of(entry)
        if name in self.active or is_in(entry, self.failed):
            return None
        why = self.stopped(entry)
        if why:
            self.say(why, name)
            return None
        if "@@activate" in entry["decorators"]:
            self.say("decorator_activate", name)
            return entry
        if "@@dont_activate" in entry["decorators"]:
            self.say("decorator_suppress", name)
            return None
        if name in self.queue:
            self.say("external", name)
            return self.queue[name]
        for kind, applies in (
            ("constant", truthy(entry.get("constant"))),
            ("sticky", self.is_running("sticky", entry)),
        ):
            if applies:
                self.say(kind, name)
                return entry
        return entry if self.found(entry, name) else None

    def found(self, entry: Lore, name: str) -> bool:
        if not isinstance(entry.get("key"), list) or not entry["key"]:
            self.say("no_keys", name)
            return False
        hits = (key for key in entry["key"] if self.finds_expanded(entry, self.macros(key)))
        primary = next(hits, None)
        if primary is None:
            return False
        others = entry.get("keysecondary")
        if not truthy(entry.get("selective")) or not isinstance(others, list) or not others:
            self.say("primary", name, primary)
            return True
        self.say("primary_then_secondary", name, primary)
        event = self.secondary(entry)
        self.say(*(event or ("secondary_unsatisfied", name)))
        return event is not None
