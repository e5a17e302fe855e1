"""Finds the trigger of an entry that fires (docs/rules/replica.md §4, §7.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, assert_never

from lorewell.engine.conditions import Comparison, Flaw, Table, describe_fields
from lorewell.engine.conditions.truth import as_text, compare
from lorewell.engine.replica.rag import RagMatch
from lorewell.engine.replica.search import KeywordSearch
from lorewell.engine.replica.triggers import LogicTrigger
from lorewell.engine.replica.world import NO_KEY_FOUND, ParsedCondition, ReplicaEntry
from lorewell.engine.state import AbsentValue
from lorewell.model.replica import NO_REPLICA_FACTS, ReplicaFacts, Trigger


class TriggerResult(NamedTuple):
    """The trigger that fired; if none did, `detail` says why for each."""

    trigger: Trigger | None
    facts: ReplicaFacts = NO_REPLICA_FACTS
    detail: str | None = None


class TriggerChecks:
    """The triggers of the entries of one book in one turn."""

    def __init__(
        self, table: Table, search: KeywordSearch, rag_matches: Mapping[int, RagMatch | None]
    ) -> None:
        """Take the table, the results of the key search, and the similarities."""
        self._table = table
        self._search = search
        self._rag_matches = rag_matches

    def check(self, entry: ReplicaEntry) -> TriggerResult:
        """Check the enabled triggers in their order until one fires."""
        triggers = entry.triggers
        if triggers.constant:
            return TriggerResult("constant")
        results: list[TriggerResult] = []
        if triggers.keyword is not None:
            results.append(self._keyword(entry))
        if entry.conditions is not None and not _fired(results):
            results.append(self._conditions(entry.conditions))
        if triggers.rag is not None and not _fired(results):
            results.append(self._rag(entry.index))
        if triggers.logic is not None and not _fired(results):
            results.append(self._logic(triggers.logic))
        if _fired(results):
            return results[-1]
        facts = next((each.facts for each in results if each.facts is not NO_REPLICA_FACTS), None)
        detail = "; ".join(each.detail for each in results if each.detail)
        return TriggerResult(None, facts or NO_REPLICA_FACTS, detail or None)

    def _keyword(self, entry: ReplicaEntry) -> TriggerResult:
        found = self._search.match(entry)
        if found is None:
            return TriggerResult(None, detail=NO_KEY_FOUND)
        if found.detail is not None:
            return TriggerResult(None, found.facts, f"keyword: {found.detail}")
        return TriggerResult("keyword", found.facts)

    def _conditions(self, conditions: tuple[ParsedCondition, ...]) -> TriggerResult:
        if not conditions:
            return TriggerResult(None, detail="condition: there is none")
        for text, parsed in conditions:
            if isinstance(parsed, Flaw):
                facts = ReplicaFacts(condition=text)
                detail = f"condition: {text} is unreadable at {parsed.at}: {parsed.detail}"
                return TriggerResult(None, facts, detail)
            if not compare(self._table(parsed.field), parsed.operator, parsed.value):
                value = describe_fields(parsed, self._table)
                facts = ReplicaFacts(condition=text, value=value)
                return TriggerResult(None, facts, f"condition: {text} is false: {value}")
        return TriggerResult("condition")

    def _rag(self, index: int) -> TriggerResult:
        match = self._rag_matches.get(index)
        if match is None:
            return TriggerResult(None, detail="rag: there is no similarity")
        return (
            TriggerResult("rag", match.facts)
            if match.fires
            else TriggerResult(None, match.facts, match.detail)
        )

    def _logic(self, logic: LogicTrigger) -> TriggerResult:
        if self._holds(logic):
            return TriggerResult("logic")
        left = describe_fields(Comparison(logic.variable, "=", ""), self._table)
        text = f"{logic.variable} {logic.operator} {logic.other}"
        facts = ReplicaFacts(condition=text, value=left)
        return TriggerResult(None, facts, f"logic: {text} is false: {left}")

    def _holds(self, logic: LogicTrigger) -> bool:
        """Return whether the comparison of a field with another field or value holds.

        Source: docs/rules/replica.md §7.3: with a missing field, negations are false as well.
        """
        left = self._table(logic.variable)
        other = logic.other
        if other.startswith("tb."):
            right = self._table(other.removeprefix("tb."))
            if right is None or right is AbsentValue.ABSENT:
                return False
            other = as_text(right)
        if left is None or left is AbsentValue.ABSENT:
            return False
        match logic.operator:
            case "equals":
                return compare(left, "==", other)
            case "not_equals":
                return compare(left, "!=", other)
            case "contains":
                return compare(left, "包括", other)
            case "not_contains":
                return not compare(left, "包括", other)
            case "greater":
                return compare(left, ">", other)
            case "less":
                return compare(left, "<", other)
            case _:
                assert_never(logic.operator)


def _fired(results: list[TriggerResult]) -> bool:
    return bool(results) and results[-1].trigger is not None
