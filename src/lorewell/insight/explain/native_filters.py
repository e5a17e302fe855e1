"""The changes that are tried for a filter of eligibility under the policy `native`.

Source: docs/explain.md, "The changes that are tried".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lorewell.engine.chance import roll
from lorewell.engine.conditions import Comparison, Flaw, in_state, is_true, leaves
from lorewell.engine.native.compiled import CompiledEntry
from lorewell.engine.native.conditions import holds
from lorewell.engine.native.eligibility import SELECTABLE_KINDS, UNDECLARED
from lorewell.insight.explain.edits import Change, Edit, EntryPlace, Gone, of_entry, of_request
from lorewell.insight.explain.states import set_value, values_for
from lorewell.model import Condition, PlacementCapabilities, SelectRequest

_MAX_AUDIENCES = 20
_SEEDS = 500


@dataclass(frozen=True, slots=True)
class _Filtered:
    """An entry that a filter refuses."""

    place: EntryPlace
    entry: CompiledEntry
    request: SelectRequest


def filter_changes(
    gate: str, place: EntryPlace, entry: CompiledEntry, request: SelectRequest
) -> Iterator[Change]:
    """Yield the changes with which an entry may pass a filter.

    Args:
        gate: the filter that refuses it.
        place: the place of the entry.
        entry: the entry.
        request: the turn.
    """
    return _CHANGES[gate](_Filtered(place, entry, request))


def _enabled(of: _Filtered) -> Iterator[Change]:
    if not of.entry.spec.enabled:
        yield of_entry(of.place, "enabled", value=True)


def _audience(of: _Filtered) -> Iterator[Change]:
    audiences = of.entry.spec.audience
    if len(audiences) < _MAX_AUDIENCES:
        yield of_entry(of.place, "audience", of.request.audience, "-")
    for audience in audiences:
        yield of_request("audience", audience)


def _conditions(of: _Filtered) -> Iterator[Change]:
    """Yield for each false condition: without it, and with a state in which it holds."""
    state = of.request.state
    for index, condition in enumerate(of.entry.spec.conditions):
        if not holds(condition, state):
            yield of_entry(of.place, "conditions", Gone.GONE, index)
            yield set_value(state, condition.path, _wanted(condition))
    table = in_state(state)
    for index, each in enumerate(of.entry.texts):
        if isinstance(each.parsed, Flaw):
            yield of_entry(of.place, "conditions_text", Gone.GONE, index)
        elif not is_true(each.parsed, table):
            yield of_entry(of.place, "conditions_text", Gone.GONE, index)
            for leaf, _ in leaves(each.parsed):
                if isinstance(leaf, Comparison):
                    for value in values_for(leaf):
                        yield set_value(state, leaf.field, value, flat=True)


def _wanted(condition: Condition) -> object:
    """Return a value with which a false condition holds."""
    match condition.op:
        case "eq":
            return condition.value
        case "in":
            return condition.value[0]
        case "exists" if condition.value:
            return True
        case _:
            return Gone.GONE


def _runtime(of: _Filtered) -> Iterator[Change]:
    if of.entry.spec.kind not in SELECTABLE_KINDS:
        yield of_entry(of.place, "kind", "lore")
    if of.entry.spec.runtime_requirements:
        yield of_entry(of.place, "runtime_requirements", ())


def _probability(of: _Filtered) -> Iterator[Change]:
    yield of_entry(of.place, "probability", 100)
    yield from seed_changes(of.entry, of.request, passes=True)


def seed_changes(entry: CompiledEntry, request: SelectRequest, *, passes: bool) -> Iterator[Change]:
    """Yield the first number that gives a roll on the wanted side of the entry's probability."""
    for number in range(1, _SEEDS):
        seed = str(number)
        if seed != request.seed and (roll(seed, entry.spec.id) < entry.spec.probability) is passes:
            yield Change("seed", (Edit(path=("seed",), value=seed),))
            return


def _template(of: _Filtered) -> Iterator[Change]:
    template = of.entry.template
    if template is not None and template.unsupported is None:
        for name in sorted(template.variables - {str(n) for n in of.request.template_vars}):
            yield of_request("template_vars", name, name)


def _placement(of: _Filtered) -> Iterator[Change]:
    spec = of.entry.spec
    places = of.request.placement_capabilities or UNDECLARED
    usable = next((each for each in places.positions if each != "outlet"), None)
    if usable is not None:
        edits = [Edit(entry=of.place, path=("position",), value=usable)]
        if spec.outlet_name is not None:
            edits.append(Edit(entry=of.place, path=("outlet_name",), value=None))
        yield Change("entry", tuple(edits))
    outlets = {*places.outlets, *([] if spec.outlet_name is None else [spec.outlet_name])}
    wider = PlacementCapabilities(
        positions=tuple(dict.fromkeys((*places.positions, spec.position))),
        outlets=tuple(sorted(outlets)),
    )
    yield of_request("placement_capabilities", wider)


_CHANGES: Mapping[str, Callable[[_Filtered], Iterator[Change]]] = {
    "enabled": _enabled,
    "audience": _audience,
    "conditions": _conditions,
    "runtime": _runtime,
    "probability": _probability,
    "template": _template,
    "content": lambda _: iter(()),
    "placement": _placement,
}
