"""Which trigger of an entry fires, if one does (docs/rules/replica.md §4, §7.3)."""

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
    """The trigger that fired, None if none did; then what each of them lacked."""

    trigger: Trigger | None
    facts: ReplicaFacts = NO_REPLICA_FACTS
    detail: str | None = None


class TriggerChecks:
    """The triggers of the entries of one book in one turn."""

    def __init__(
        self, table: Table, search: KeywordSearch, near: Mapping[int, RagMatch | None]
    ) -> None:
        """Take the table, what was found of the keys, and what is near."""
        self._table = table
        self._search = search
        self._near = near

    def check(self, lore: ReplicaEntry) -> TriggerResult:
        """Try the triggers that are on, in their order, until one fires."""
        triggers = lore.triggers
        if triggers.constant:
            return TriggerResult("constant")
        missed: list[TriggerResult] = []
        if triggers.keyword is not None:
            missed.append(self._keyword(lore))
        if lore.conditions is not None and not _fired(missed):
            missed.append(self._conditions(lore.conditions))
        if triggers.rag is not None and not _fired(missed):
            missed.append(self._rag(lore.index))
        if triggers.logic is not None and not _fired(missed):
            missed.append(self._logic(triggers.logic))
        if _fired(missed):
            return missed[-1]
        facts = next((each.facts for each in missed if each.facts is not NO_REPLICA_FACTS), None)
        detail = "; ".join(each.detail for each in missed if each.detail)
        return TriggerResult(None, facts or NO_REPLICA_FACTS, detail or None)

    def _keyword(self, lore: ReplicaEntry) -> TriggerResult:
        found = self._search.look(lore)
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
        near = self._near.get(index)
        if near is None:
            return TriggerResult(None, detail="rag: there is no similarity")
        return (
            TriggerResult("rag", near.facts)
            if near.fires
            else TriggerResult(None, near.facts, near.detail)
        )

    def _logic(self, logic: LogicTrigger) -> TriggerResult:
        if self._holds(logic):
            return TriggerResult("logic")
        left = describe_fields(Comparison(logic.variable, "=", ""), self._table)
        text = f"{logic.variable} {logic.operator} {logic.other}"
        facts = ReplicaFacts(condition=text, value=left)
        return TriggerResult(None, facts, f"logic: {text} is false: {left}")

    def _holds(self, logic: LogicTrigger) -> bool:
        """Return whether one field stands in that relation to a field or value.

        Source: docs/rules/replica.md §7.3: a missing field is false for the negations, too.
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


def _fired(verdicts: list[TriggerResult]) -> bool:
    return bool(verdicts) and verdicts[-1].trigger is not None
