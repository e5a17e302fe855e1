"""Rules for conditions: whether they can hold, and whether their paths have values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from lorewell.engine.conditions import (
    And,
    Comparison,
    Expression,
    Flaw,
    Not,
    in_state,
    leaves,
    parse_condition,
    parse_expression,
)
from lorewell.engine.conditions.truth import as_text, is_number
from lorewell.engine.state import AbsentValue
from lorewell.insight.lint.judged import JudgedBook, JudgedEntry
from lorewell.insight.lint.report import Report, shown
from lorewell.model import Condition

_DIGITS: Final = re.compile(r"[0-9]+")
_MIN_PATH: Final = 4
_MAX_PATHS: Final = 2_000
_MAX_PATH_CHARS: Final = 60


@dataclass(slots=True)
class _Wanted:
    """What the conditions of an entry want of one path."""

    equal: list[str] = field(default_factory=list)
    unequal: set[str] = field(default_factory=set)
    choices: list[frozenset[str]] = field(default_factory=list)
    above: list[tuple[Decimal, bool]] = field(default_factory=list)
    below: list[tuple[Decimal, bool]] = field(default_factory=list)
    present: bool = False
    absent: bool = False

    def contradicts(self) -> bool:
        """Return whether no value satisfies it."""
        needed = self.present or bool(self.equal or self.choices or self.above or self.below)
        if self.absent and needed:
            return True
        allowed = [frozenset([value]) for value in self.equal] + self.choices
        if allowed:
            left = frozenset.intersection(*allowed) - self.unequal
            return not any(self._in_range(value) for value in left)
        return self._is_empty_range()

    def _in_range(self, value: str) -> bool:
        if not self.above and not self.below:
            return True
        if not is_number(value):
            return False
        number = Decimal(value)
        return all(number > low or (open_ and number == low) for low, open_ in self.above) and all(
            number < high or (open_ and number == high) for high, open_ in self.below
        )

    def _is_empty_range(self) -> bool:
        if not self.above or not self.below:
            return False
        low, low_counts = max(self.above, key=lambda each: (each[0], not each[1]))
        high, high_counts = min(self.below, key=lambda each: (each[0], each[1]))
        return low > high or (low == high and not (low_counts and high_counts))


def check_conditions(book: JudgedBook, report: Report) -> None:
    """Report conditions that can't be read, can't hold together, or read paths without values."""
    if book.settings.policy == "sillytavern":  # which ignores conditions
        return
    for entry in book.entries:
        book.steps.spend("lint", len(entry.conditions) + len(entry.texts))
        _check_readable(book, entry, report)
        _check_together(entry, report)
    if book.settings.state is None:
        _check_spelling(book, report)
    else:
        _check_state(book, report)


def _check_readable(book: JudgedBook, entry: JudgedEntry, report: Report) -> None:
    parse = parse_condition if book.settings.policy == "replica" else parse_expression
    for at, text in enumerate(entry.spec.conditions_text):
        parsed = parse(text)
        if isinstance(parsed, Flaw) and isinstance(parse_expression(text), Flaw):
            report.add(
                "condition-unreadable",
                f"The condition {shown(text)} never holds: at character {parsed.at}, "
                f"{parsed.detail}.",
                entry,
                at=f"conditions_text/{at}",
                span=(min(parsed.at, len(text)), len(text)),
            )


def _check_together(entry: JudgedEntry, report: Report) -> None:
    wanted: dict[str, _Wanted] = defaultdict(_Wanted)
    where: dict[str, str] = {}
    for at, condition in enumerate(entry.conditions):
        _want(wanted[condition.path], condition)
        where[condition.path] = f"conditions/{at}"
    for at, text in entry.texts:
        for leaf, holds in _conjuncts(text):
            _compare(wanted[leaf.field], leaf, holds=holds)
            where[leaf.field] = f"conditions_text/{at}"
    for path, each in wanted.items():
        if each.contradicts():
            sentence = f"The conditions on {shown(path)} can't hold together."
            report.add("conditions-contradict", sentence, entry, at=where[path])
            return


def _conjuncts(text: Expression) -> Iterator[tuple[Comparison, bool]]:
    """Yield the comparisons that must all hold, or must not, for an expression to hold."""
    match text:
        case Comparison():
            yield text, True
        case Not(Comparison() as part):
            yield part, False
        case And(parts):
            for each in parts:
                yield from _conjuncts(each)
        case _:
            return


def _plain(value: Any) -> str:  # noqa: ANN401  a JSON value
    text = as_text(value)
    if not is_number(text) or len(text) > _MAX_PATH_CHARS:
        return text
    return format(Decimal(text).normalize(), "f")


def _want(wanted: _Wanted, condition: Condition) -> None:
    match condition.op:
        case "eq":
            wanted.equal.append(_plain(condition.value))
        case "ne":
            wanted.unequal.add(_plain(condition.value))
        case "in":
            wanted.choices.append(frozenset(map(_plain, condition.value)))
        case "exists" if condition.value:
            wanted.present = True
        case "exists":
            wanted.absent = True


def _compare(wanted: _Wanted, leaf: Comparison, *, holds: bool) -> None:
    value = _plain(leaf.value)
    if not holds:
        if leaf.operator in ("=", "=="):
            wanted.unequal.add(value)
        return
    wanted.present = True  # a comparison with a missing value is false
    match leaf.operator:
        case "=" | "==":
            wanted.equal.append(value)
        case "!=":
            wanted.unequal.add(value)
        case ">" | ">=" if is_number(value):
            wanted.above.append((Decimal(value), leaf.operator == ">="))
        case "<" | "<=" if is_number(value):
            wanted.below.append((Decimal(value), leaf.operator == "<="))
        case _:
            pass


def _paths(entry: JudgedEntry) -> Iterator[tuple[str, str, bool]]:
    """Yield (path, pointer from the entry, whether it must have a value)."""
    for at, condition in enumerate(entry.conditions):
        must = condition.op in ("eq", "in") or (condition.op == "exists" and condition.value)
        yield condition.path, f"conditions/{at}/path", bool(must)
    for at, text in entry.texts:
        for leaf, wanted in leaves(text):
            if isinstance(leaf, Comparison):
                yield leaf.field, f"conditions_text/{at}", wanted


def _check_state(book: JudgedBook, report: Report) -> None:
    table = in_state(dict(book.settings.state or {}))
    for entry in book.entries:
        for path, at, must in _paths(entry):
            if must and table(path) is AbsentValue.ABSENT:
                text = f"The state has no value at {shown(path)}."
                report.add("path-unset", text, entry, at=at)


def _check_spelling(book: JudgedBook, report: Report) -> None:
    """Report a path that one entry has and that is one letter off a more frequent one."""
    places: dict[str, list[tuple[JudgedEntry, str]]] = defaultdict(list)
    for entry in book.entries:
        for path, at, _ in _paths(entry):
            if len(path) <= _MAX_PATH_CHARS and (path in places or len(places) < _MAX_PATHS):
                places[path].append((entry, at))
    near: dict[str, list[str]] = defaultdict(list)
    for path in places:
        book.steps.spend("lint", len(path))
        for shorter in _shortened(path):
            near[shorter].append(path)
    for path, found in places.items():
        others = {other for shorter in _shortened(path) for other in near[shorter] if other != path}
        rivals = [other for other in others if _is_slip(path, other)]
        usual = max(rivals, key=lambda other: (len(places[other]), other), default=None)
        if usual is not None and len(found) == 1 and _is_more_usual(places, usual, path):
            entry, at = found[0]
            text = f"The path {shown(path)} is used once; {shown(usual)} may be meant."
            report.add("path-misspelled", text, entry, at=at)


def _is_more_usual(places: Mapping[str, Sequence[object]], usual: str, path: str) -> bool:
    counts = len(places[usual]), len(places[path])
    return counts[0] > counts[1] or (counts[0] == counts[1] and usual < path)


def _shortened(path: str) -> set[str]:
    """Return the path, and the path without one of its characters."""
    return {path, *(path[:at] + path[at + 1 :] for at in range(len(path)))}


def _is_slip(path: str, other: str) -> bool:
    """Return whether one path is the other with one letter added, lost, changed or swapped."""
    if min(len(path), len(other)) < _MIN_PATH or path.casefold() == other.casefold():
        return path.casefold() == other.casefold()
    if _DIGITS.sub("", path) == _DIGITS.sub("", other):
        return False
    if len(path) == len(other):
        differing = [at for at in range(len(path)) if path[at] != other[at]]
        if len(differing) == 1:
            return not (path[differing[0]].isdigit() or other[differing[0]].isdigit())
        first, *rest = differing
        return (
            rest == [first + 1] and path[first] == other[rest[0]] and path[rest[0]] == other[first]
        )
    longer, shorter = sorted((path, other), key=len, reverse=True)
    return shorter in _shortened(longer) and not longer.endswith("s")
