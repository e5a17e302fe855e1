"""SillyTavern's scan as its specification says it, word for word and as slow as that is.

Written from the text alone, without a look at the engine, and used by tests only. It takes a case
in the form of the golden corpus and gives what that form expects; README.md in tests/golden has it.

Source: docs/rules/sillytavern.md; the sections are named at the functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import floor
from typing import Any

from property.sillytavern_turn import (
    MIN_ACTIVATIONS,
    RECURSION,
    STOP,
    Case,
    Lore,
    Turn,
    by_order,
    collected,
    is_in,
    name_of,
)
from property.sillytavern_words import (
    BLANK,
    MISSING,
    is_same,
    number,
    object_order,
    or_else,
    string,
    truthy,
)


@dataclass
class Answer:
    """What one scan did."""

    expected: Case
    draws_used: int
    forced: list[Case]


@dataclass
class Scan(Turn):
    """One scan, from the turn to its answer."""

    # §10: inclusion groups

    def remove(self, candidates: list[Lore], entry: Lore) -> None:
        index = next((at for at, each in enumerate(candidates) if each is entry), -1)
        if candidates:
            del candidates[index]

    def score(self, entry: Lore) -> int:
        keys, others = entry.get("key"), entry.get("keysecondary")
        keys = keys if isinstance(keys, list) else []
        others = others if isinstance(others, list) else []
        if not keys:
            return 0
        score = sum(self.finds(entry, key) for key in keys)
        found = sum(self.finds(entry, key) for key in others)
        logic = entry.get("selectiveLogic", MISSING)
        if is_same(logic, 0) or (is_same(logic, 3) and found == len(others)):
            score += found
        return score

    def apply_groups(self, candidates: list[Lore]) -> None:
        groups: dict[str, list[Lore]] = {}
        for entry in candidates:
            for name in re.split(f",[{BLANK}]*", entry.get("group") or ""):
                if name:
                    groups.setdefault(name, []).append(entry)
        groups = object_order(groups)
        marked = [
            name for name, members in groups.items() if self.timed_pass(candidates, name, members)
        ]
        for name, members in groups.items():
            if name not in marked:
                self.score_pass(candidates, name, members)
        for name, members in groups.items():
            if name not in marked:
                self.choice_pass(candidates, name, members)

    def timed_pass(self, candidates: list[Lore], name: str, members: list[Lore]) -> bool:
        sticky = [entry for entry in members if self.is_running("sticky", entry)]
        if sticky:
            for entry in members:
                if not is_in(entry, sticky):
                    self.say("group_lost_to_sticky", name_of(entry), name)
                    self.remove(candidates, entry)
        for entry in members:
            if self.is_running("cooldown", entry):
                self.say("group_cooldown_removed", name, name_of(entry))
                self.remove(candidates, entry)
        for entry in members:
            if self.is_running("delay", entry):
                self.say("delay", name_of(entry))
                self.remove(candidates, entry)
        return bool(sticky)

    def score_pass(self, candidates: list[Lore], name: str, members: list[Lore]) -> None:
        general = truthy(self.setting("use_group_scoring"))
        if not general and not any(truthy(entry.get("useGroupScoring")) for entry in members):
            return
        scores = [self.score(entry) for entry in members]
        for entry, score in zip(list(members), scores, strict=True):
            if truthy(or_else(entry.get("useGroupScoring"), general)) and score < max(scores):
                self.say("group_lost_score", name_of(entry), name)
                self.remove(candidates, entry)
                self.remove(members, entry)

    def choice_pass(self, candidates: list[Lore], name: str, members: list[Lore]) -> None:
        if any(entry.get("group") == name for entry in self.active.values()):
            self.say("group_already_active", name)
            for entry in members:
                self.remove(candidates, entry)
            return
        if len(members) <= 1:
            return
        first = by_order([entry for entry in members if truthy(entry.get("groupOverride"))])
        winner = first[0] if first else self.rolled(members)
        if winner is None:
            return
        self.say("group_prio_winner" if first else "group_roll_winner", name_of(winner), name)
        for entry in members:
            if entry is not winner:
                self.say("group_lost", name_of(entry))
                self.remove(candidates, entry)

    def rolled(self, members: list[Lore]) -> Lore | None:
        weights = [number(or_else(entry.get("groupWeight"), 100)) for entry in members]
        roll, total = self.draw() * sum(weights), 0.0
        for entry, weight in zip(members, weights, strict=True):
            total += weight
            if roll <= total:
                return entry
        return None

    # §8: the scan

    def begin(self) -> bool:
        percent, cap = self.setting("budget"), self.setting("budget_cap")
        self.collect_injected()
        self.budget = floor(percent * self.step["maxContext"] / 100 + 0.5) or 1
        if cap > 0:
            self.budget = min(self.budget, cap)
        self.entries = collected(self.case, self.setting("character_strategy"))
        self.fill_queue()
        self.clean_timed()
        if not self.step["dryRun"]:
            self.check_timed()
        self.check_delays()
        delays = [entry.get("delayUntilRecursion") for entry in self.entries]
        self.levels = sorted({number(delay) for delay in delays if truthy(delay)})
        self.level = self.levels.pop(0) if self.levels else 0
        return bool(self.entries)

    def collect_injected(self) -> None:
        prompts = {each["name"]: each for each in self.step.get("extensionPrompts", [])}
        note = self.step.get("authorsNote")
        values = [
            each["value"] for each in object_order(prompts).values() if each.get("scan", True)
        ]
        if note and note.get("scan"):
            values.append(note["value"])
        self.injected = [text for text in map(self.macros, values) if text]

    def fill_queue(self) -> None:
        for each in self.step.get("force", []):
            if "ref" in each:
                known = [entry for entry in self.entries if name_of(entry) == each["ref"]]
                copy = {**known[0], **each.get("override", {})} if known else {}
            else:
                copy = dict(each["entry"])
            if "world" in copy and "uid" in copy:
                self.queue[name_of(copy)] = copy

    def run(self) -> None:
        while self.state != STOP:
            if 0 < self.setting("max_recursion_steps") <= len(self.loops):
                self.say("max_recursion_steps")
                break
            self.say("loop", len(self.loops) + 1)
            self.run_loop()

    def run_loop(self) -> None:
        state, candidates = self.state, []
        for entry in self.entries:
            found = self.judged(entry)
            if found is not None and not is_in(found, candidates):
                candidates.append(found)
        candidates.sort(key=lambda entry: (not self.is_running("sticky", entry), self.place(entry)))
        base = self.tokens(self.active_text)
        self.apply_groups(candidates)
        self.take(candidates, base)
        kept = [entry for entry in candidates if not is_in(entry, self.failed)]
        waking = [entry for entry in kept if not truthy(entry.get("preventRecursion"))]
        self.state = self.next_state(waking)
        if self.state != STOP:
            text = "\n".join(string(entry.get("content") or "") for entry in waking)
            if text:
                self.recursion.append(text)
                self.active_text = text + "\n" + self.active_text
        self.loops.append(
            {
                "state": state,
                "next": self.state,
                "candidates": [name_of(entry) for entry in candidates],
                "successful": [name_of(entry) for entry in kept],
                "activatedTotal": len(self.active),
                "overflowed": self.overflow,
                "delayLevel": +self.level,
            }
        )

    def place(self, entry: Lore) -> int:
        return next((at for at, each in enumerate(self.entries) if each is entry), -1)

    def take(self, candidates: list[Lore], base: int) -> None:
        text, left = "", sum(truthy(entry.get("ignoreBudget")) for entry in candidates)
        for entry in candidates:
            free = truthy(entry.get("ignoreBudget"))
            left -= free
            if self.overflow and not free:
                if left > 0:
                    continue
                return
            if not self.is_lucky(entry):
                continue
            entry["content"] = self.macros(entry.get("content") or "")
            text += entry["content"] + "\n"
            assert self.budget is not None
            if not free and base + self.tokens(text) >= self.budget:
                self.overflow = True
                self.say("budget_overflow", self.budget, len(self.active))
                continue
            self.active[name_of(entry)] = entry
            self.say("added", name_of(entry))

    def is_lucky(self, entry: Lore) -> bool:
        chance = entry.get("probability", MISSING)
        if not truthy(entry.get("useProbability")) or is_same(chance, 100):
            return True
        if self.is_running("sticky", entry):
            return True
        lucky = self.draw() * 100 <= number(chance)
        self.say("probability_passed" if lucky else "probability_failed", name_of(entry))
        if not lucky:
            self.failed.append(entry)
        return lucky

    def next_state(self, waking: list[Lore]) -> int:
        following, recursive = STOP, truthy(self.setting("recursive"))
        if recursive and not self.overflow and waking:
            following = RECURSION
        if recursive and not self.overflow and self.state == MIN_ACTIVATIONS and self.recursion:
            following = RECURSION
        wanted = self.setting("min_activations")
        if following == STOP and not self.overflow and wanted > 0 and len(self.active) < wanted:
            depth = self.setting("depth") + self.skew
            most = self.setting("min_activations_depth_max")
            if (most > 0 and depth > most) or depth > self.length:
                self.say("min_activations_out_of_depth")
            else:
                following = MIN_ACTIVATIONS
                self.skew += 1
                self.say("min_activations_advance", depth + 1)
        if following == STOP and self.levels:
            following, self.level = RECURSION, self.levels.pop(0)
            self.say("next_delay_level", self.level)
        return following

    # §12: the output

    def output(self) -> Case:
        lists: dict[int, list[Any]] = {place: [] for place in (0, 1, 2, 3)}
        examples: list[Case] = []
        groups: list[Case] = []
        outlets: dict[str, list[str]] = {}
        for entry in by_order(list(self.active.values())):
            content, position = entry["content"], entry.get("position", MISSING)
            if not content:
                self.say("empty_content", name_of(entry))
            elif any(is_same(position, place) for place in (0, 1, 2, 3)):
                lists[position].insert(0, content)
            elif is_same(position, 4):
                put_at_depth(groups, entry)
            elif is_same(position, 5) or is_same(position, 6):
                examples.insert(0, {"position": int(position) - 5, "content": content})
            elif is_same(position, 7) and entry.get("outletName"):
                outlets.setdefault(entry["outletName"], []).append(content)
        return {
            "worldInfoBefore": "\n".join(lists[0]),
            "worldInfoAfter": "\n".join(lists[1]),
            "EMEntries": examples,
            "WIDepthEntries": groups,
            "ANBeforeEntries": lists[2],
            "ANAfterEntries": lists[3],
            "outletEntries": outlets,
        }

    def answer(self) -> Answer:
        has_entries = self.begin()
        if has_entries:
            self.run()
        buckets = self.output()
        if has_entries and not self.step["dryRun"]:
            self.set_timed()
        note = self.step.get("authorsNote")
        merged = note["value"] if note and note["insert"] else None
        if merged is not None and has_entries:
            top, bottom = (
                "\n".join(buckets["ANBeforeEntries"]),
                "\n".join(buckets["ANAfterEntries"]),
            )
            merged = f"{top}\n{merged}\n{bottom}".removeprefix("\n").removesuffix("\n")
        expected = {
            "error": None,
            "activated": list(self.active),
            **buckets,
            "authorsNote": merged,
            "timedState": self.timed,
            "budget": self.budget if has_entries else None,
            "overflowed": self.overflow,
            "loops": self.loops,
            "events": self.events,
        }
        if "macroInputs" in self.case:
            local, shared = self.variables["."], self.variables["$"]
            expected["variables"] = {"local": {**local}, "global": {**shared}}
        return Answer(expected, self.draws, [] if has_entries else self.step.get("force", []))


def put_at_depth(groups: list[Case], entry: Lore) -> None:
    depth, role = or_else(entry.get("depth"), 4), or_else(entry.get("role"), 0)
    for group in groups:
        if is_same(group.get("depth", MISSING), depth) and is_same(group["role"], role):
            group["entries"].insert(0, entry["content"])
            return
    raw = {"depth": entry["depth"]} if "depth" in entry else {}
    groups.append({**raw, "role": role, "entries": [entry["content"]]})


def play(case: Case, count: Callable[[str], int]) -> Iterator[Answer]:
    """Give the answer of every step; timed state, variables and what is still queued carry over."""
    timed, forced = case["timedState"] or {}, list[Case]()
    given = case.get("macroInputs", {}).get("variables", {})
    variables = {".": {**given.get("local", {})}, "$": {**given.get("global", {})}}
    for step in case["steps"]:
        step_now = {**step, "force": [*forced, *step.get("force", [])]}
        answer = Scan(case, step_now, count, {**timed}, variables).answer()
        yield answer
        timed, forced = answer.expected["timedState"], answer.forced
