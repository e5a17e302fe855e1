"""The changes that are tried under the policy `replica`: a closed list for each gate.

Source: docs/explain.md, "The changes that are tried".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lorewell.engine.chance import roll
from lorewell.engine.conditions import Comparison, in_table, is_true
from lorewell.engine.replica.triggers import KeywordTrigger
from lorewell.insight.explain.edits import Change, Edit, EntryPlace, Gone, of_entry
from lorewell.insight.explain.near import find_near
from lorewell.insight.explain.replica_view import ReplicaView
from lorewell.insight.explain.states import values_for

_FEW, _WORDS, _SEEDS = 12, 3, 500
_WORD = re.compile(r"\w+")
_LOGICS = range(4)
_TABLE = ("dynamic_table_data", "current_values")


def replica_changes(view: ReplicaView, places: dict[str, EntryPlace]) -> list[Change]:
    """Return the changes to try, each once.

    Args:
        view: the entry in a turn.
        places: the places of all entries, by book and uid.
    """
    unique: list[Change] = []
    for change in _changes(view, places):
        if change not in unique:
            unique.append(change)
    return unique


def _changes(view: ReplicaView, places: dict[str, EntryPlace]) -> Iterator[Change]:
    own = places[view.id]
    match view.decisive():
        case None:
            yield from _against(view, own, places)
        case "enabled":
            yield of_entry(own, "disable", value=False)
        case "trigger":
            yield from _trigger_changes(view, own)
        case "probability":
            yield of_entry(own, "probability", 100)
            yield from _seed(view, passes=True)
        case "requires":
            yield of_entry(own, "requires", [])
            missing = places.get(f"{view.book_id}.{view.decision().facts.missing}")
            if missing is not None:
                yield of_entry(missing, "disable", value=False)
                yield of_entry(missing, "group", None)
        case _:
            yield from _conflict_changes(view, own, places)


def _seed(view: ReplicaView, *, passes: bool) -> Iterator[Change]:
    """Yield the first number that gives a roll on the wanted side of the probability."""
    spec = view.entry.spec
    for number in range(1, _SEEDS):
        seed = str(number)
        if seed != view.request.seed and (roll(seed, spec.uid) < spec.probability) is passes:
            yield Change("seed", (Edit(path=("seed",), value=seed),))
            return


def _keyword(own: EntryPlace, keyword: KeywordTrigger, **changed: object) -> Change:
    """Return a change of the keyword trigger as a whole."""
    settings = {
        "key": list(keyword.keys),
        "keysecondary": list(keyword.secondary),
        "selective": bool(keyword.secondary),
        "selectiveLogic": keyword.logic,
        "caseSensitive": keyword.case_sensitive,
        "matchWholeWords": keyword.whole_words,
        **changed,
    }
    return of_entry(own, "trigger_config", [True, settings], "triggers", "keyword")


def _trigger_changes(view: ReplicaView, own: EntryPlace) -> Iterator[Change]:
    keyword = view.entry.triggers.keyword or KeywordTrigger()
    if keyword.whole_words:
        yield _keyword(own, keyword, matchWholeWords=False)
    if keyword.case_sensitive:
        yield _keyword(own, keyword, caseSensitive=False)
    if keyword.secondary:
        yield _keyword(own, keyword, selective=False)
        for logic in _LOGICS:
            if logic != keyword.logic:
                yield _keyword(own, keyword, selectiveLogic=logic)
    for key in _new_keys(view):
        yield _keyword(own, keyword, key=[*keyword.keys, key])
    yield from _table_changes(view)
    secondary = " ".join(keyword.secondary)
    for known in view.near_keys()[:_WORDS]:
        text = f"{view.request.mes} {known.text} {secondary}".rstrip()
        yield Change("text", (Edit(path=("mes",), value=text),))
    yield of_entry(own, "trigger_config", [True, None], "triggers", "constant")


def _table_changes(view: ReplicaView) -> Iterator[Change]:
    """Yield for each false condition the values of its field with which it may hold."""
    table = view.request.dynamic_table_data.current_values
    for condition in view.entry.conditions or ():
        parsed = condition.parsed
        if isinstance(parsed, Comparison) and not is_true(parsed, in_table(table)):
            for value in values_for(parsed):
                edit = Edit(path=(*_TABLE, parsed.field), value=value)
                yield Change("request", (edit,))


def _new_keys(view: ReplicaView) -> list[str]:
    """Return texts of the turn as keys: what nearly matched, then the longest words."""
    near = [miss.found for miss in find_near(view.near_keys(), view.texts(), view.steps)]
    words = sorted(set(_WORD.findall(view.request.mes)), key=lambda word: (-len(word), word))
    found = dict.fromkeys([*near, *(word[:_FEW] for word in words[:_WORDS])])
    return [key for key in found if key.strip()][:_FEW]


def _conflict_changes(
    view: ReplicaView, own: EntryPlace, places: dict[str, EntryPlace]
) -> Iterator[Change]:
    yield of_entry(own, "group", None)
    yield of_entry(own, "trigger_config", [True, None], "triggers", "constant")
    winner = view.decision().facts.winner
    for name, place in places.items():
        if winner is None or name.rsplit(".", 1)[-1] != winner:
            continue
        yield of_entry(place, "group", None)
        yield of_entry(place, "disable", value=True)
        heavier = view.books[[*view.books][place.book]].entries[place.entry].spec.group_weight + 1
        yield of_entry(own, "groupWeight", heavier)


def _against(view: ReplicaView, own: EntryPlace, places: dict[str, EntryPlace]) -> Iterator[Change]:
    """Yield the changes that may keep an active entry out."""
    spec, triggers, facts = view.entry.spec, view.entry.triggers, view.decision().facts
    yield of_entry(own, "disable", value=True)
    if spec.probability > 0:
        yield of_entry(own, "probability", 0)
        yield from _seed(view, passes=False)
    if triggers.constant:
        yield of_entry(own, "trigger_config", [False, None], "triggers", "constant")
    if triggers.keyword is not None:
        yield of_entry(own, "trigger_config", [False, None], "triggers", "keyword")
        for key in facts.keys or ():
            kept = [each for each in triggers.keyword.keys if each != key]
            yield _keyword(own, triggers.keyword, key=kept)
        yield _keyword(own, triggers.keyword, matchWholeWords=not triggers.keyword.whole_words)
        yield _keyword(own, triggers.keyword, caseSensitive=not triggers.keyword.case_sensitive)
    if facts.message is not None:
        edit = Edit(path=("chat_history", facts.message), value=Gone.GONE)
        yield Change("text", (edit,))
    root = places.get(f"{view.book_id}.{facts.required_by}")
    if root is not None:
        yield of_entry(root, "disable", value=True)
        yield of_entry(root, "requires", [])
