"""The changes that are tried under the policy `sillytavern`: a closed list for each gate.

Source: docs/explain.md, "The changes that are tried".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lorewell.engine.sillytavern.scan_entry import MATCH_FLAGS
from lorewell.insight.explain.edits import Change, Edit, EntryPlace, Gone, of_entry, of_request
from lorewell.insight.explain.near import find_key, find_near
from lorewell.insight.explain.sillytavern_view import SillyTavernView

_FEW, _WORDS, _SEEDS = 12, 3, 12
_WORD = re.compile(r"\w+")
_LOGICS = range(4)
# The field that a gate reads alone, and a value with which the entry passes.
_SIMPLE: Mapping[str, tuple[str, object]] = {
    "enabled": ("disable", False),
    "trigger": ("triggers", []),
    "character": ("characterFilter", None),
    "delay": ("delay", None),
    "cooldown": ("cooldown", None),
    "probability": ("probability", 100),
}
_MOST_TOKENS = 1_000_000
_HIGHEST_ORDER = 10_000


def sillytavern_changes(view: SillyTavernView) -> list[Change]:
    """Return the changes to try, each once."""
    unique: list[Change] = []
    for change in _changes(view, EntryPlace(view.book, view.index)):
        if change not in unique:
            unique.append(change)
    return unique


def _changes(view: SillyTavernView, own: EntryPlace) -> Iterator[Change]:
    gate = view.decisive()
    if gate is None:
        yield from _against(view, own)
    elif gate in _SIMPLE:
        name, value = _SIMPLE[gate]
        yield of_entry(own, name, value)
    if gate == "cooldown":
        yield of_request("timed_state", {})
    elif gate == "group":
        yield from _group_changes(view, own)
    elif gate == "probability":
        yield from _seeds()
    elif gate == "budget":
        yield from _budget_changes(view, own)
    elif gate in ("keys", "secondary", "recursion"):
        yield from _key_changes(view, own)
        yield from _recursion_changes(view, own)
        yield from _firing_texts(view)
        yield of_entry(own, "constant", value=True)


def _seeds() -> Iterator[Change]:
    for number in range(1, _SEEDS + 1):
        yield Change("seed", (Edit(path=("seed",), value=str(number)),))


def _key_changes(view: SillyTavernView, own: EntryPlace) -> Iterator[Change]:
    yield from _depth_changes(view, own)
    yield of_entry(own, "matchWholeWords", value=False)
    yield of_entry(own, "caseSensitive", value=False)
    for name in MATCH_FLAGS:
        if not view.entry.fields.get(name):
            yield of_entry(own, name, value=True)
    if view.entry.uses_secondary:
        yield of_entry(own, "selective", value=False)
        for logic in _LOGICS:
            if logic != view.entry.logic:
                yield of_entry(own, "selectiveLogic", logic)
    has_keys = isinstance(view.entry.fields.get("key"), list | tuple)
    for key in _new_keys(view):
        yield of_entry(own, "key", key, "-") if has_keys else of_entry(own, "key", [key])


def _depth_changes(view: SillyTavernView, own: EntryPlace) -> Iterator[Change]:
    """Yield the depths at which a message with a key of the entry enters or leaves."""
    count, keys = len(view.request.chat), view.near_keys()
    depths = {
        count - number
        for number, line in enumerate(view.request.chat)
        if any(find_key(line.content, key, view.steps) is not None for key in keys)
    }
    for depth in sorted({*depths, *(depth - 1 for depth in depths)} - {view.depth}):
        yield of_entry(own, "scanDepth", depth)
        if view.entry.scan_depth is None:
            yield of_request("settings", depth, "world_info_depth")


def _recursion_changes(view: SillyTavernView, own: EntryPlace) -> Iterator[Change]:
    settings = view.request.settings
    if view.entry.level:
        yield of_entry(own, "delayUntilRecursion", value=False)
    if view.entry.excludes_recursion:
        yield of_entry(own, "excludeRecursion", value=False)
    if not settings.world_info_recursive:
        yield of_request("settings", True, "world_info_recursive")  # noqa: FBT003  the setting
    if settings.world_info_max_recursion_steps:
        yield of_request("settings", 0, "world_info_max_recursion_steps")
    keys = view.near_keys()
    for text in view.texts():
        if text.entry is None or text.unseen != "not_waking":
            continue
        if any(find_key(text.text, key, view.steps) is not None for key in keys):
            for place in _places_of(view, text.entry):
                yield of_entry(place, "preventRecursion", value=False)


def _new_keys(view: SillyTavernView) -> list[str]:
    """Return texts of the window as keys: what nearly matched, then the longest words."""
    seen = [text for text in view.texts() if text.unseen is None]
    near = [miss.found for miss in find_near(view.near_keys(), seen, view.steps)]
    newest = seen[0].text if seen else ""
    words = sorted(set(_WORD.findall(newest)), key=lambda word: (-len(word), word))
    found = dict.fromkeys([*near, *(word[:_FEW] for word in words[:_WORDS])])
    return [key for key in found if key.strip()][:_FEW]


def _firing_texts(view: SillyTavernView) -> Iterator[Change]:
    """Yield the last message with keys of the entry at its end."""
    chat = view.request.chat
    secondary = " ".join(key.text for key in view.entry.secondary if key.plain is not None)
    for key in view.near_keys()[:_WORDS]:
        if chat:
            text = f"{chat[-1].content} {key.text} {secondary}".rstrip()
            place = ("chat", len(chat) - 1, "content")
            yield Change("text", (Edit(path=place, value=text),))


def _places_of(view: SillyTavernView, entry: str) -> list[EntryPlace]:
    return [
        EntryPlace(book, index)
        for book, each in enumerate(view.library.books)
        for index in each.world.by_id.get(entry, ())
    ]


def _group_changes(view: SillyTavernView, own: EntryPlace) -> Iterator[Change]:
    yield of_entry(own, "group", "")
    yield of_entry(own, "groupOverride", value=True)
    winners = {event.winner for event in view.events() if event.winner is not None}
    for winner in sorted(winners)[:_FEW]:
        for place in _places_of(view, winner):
            yield of_entry(place, "disable", value=True)
            yield of_entry(place, "group", "")
    yield from _seeds()


def _budget_changes(view: SillyTavernView, own: EntryPlace) -> Iterator[Change]:
    settings = view.request.settings
    yield of_entry(own, "ignoreBudget", value=True)
    limit = view.response.budget.limit or 0
    needed = [event.tokens for event in view.events() if event.tokens is not None]
    context = view.request.context_tokens
    for tokens in [*needed, _MOST_TOKENS]:
        share = settings.world_info_budget
        if share and tokens >= limit:
            wanted = min(int((tokens + 1) * 100 / share) + 1, _MOST_TOKENS)
            if wanted > context:
                yield of_request("context_tokens", wanted)
    yield of_request("settings", 100, "world_info_budget")
    if settings.world_info_budget_cap:
        yield of_request("settings", 0, "world_info_budget_cap")
    yield of_entry(own, "order", _HIGHEST_ORDER)
    for active in view.response.activated[-_FEW:]:
        for place in _places_of(view, active.id):
            yield of_entry(place, "disable", value=True)


def _against(view: SillyTavernView, own: EntryPlace) -> Iterator[Change]:
    """Yield the changes that may keep an active entry out."""
    entry, request = view.entry, view.request
    yield of_entry(own, "disable", value=True)
    if entry.constant:
        yield of_entry(own, "constant", value=False)
    if entry.probability is not None:
        yield of_entry(own, "probability", 0)
        yield from _seeds()
    yield from _depth_changes(view, own)
    yield of_entry(own, "matchWholeWords", value=not entry.whole)
    yield of_entry(own, "caseSensitive", value=not entry.case)
    active = next(each for each in view.response.activated if each.id == entry.id)
    keys = entry.fields.get("key")
    if isinstance(keys, list | tuple) and active.key in keys:
        yield of_entry(own, "key", Gone.GONE, [*keys].index(active.key))
    if active.hit is not None and active.hit.text == "message" and active.hit.number is not None:
        yield Change("text", (Edit(path=("chat", active.hit.number), value=Gone.GONE),))
    if active.hit is not None and active.hit.woken_by is not None:
        yield of_entry(own, "excludeRecursion", value=True)
        for place in _places_of(view, active.hit.woken_by):
            yield of_entry(place, "preventRecursion", value=True)
            yield of_entry(place, "disable", value=True)
    else:
        yield of_entry(own, "delayUntilRecursion", value=True)
    if request.timed_state:
        yield of_request("timed_state", {})
    if not entry.ignores_budget:
        yield of_request("settings", 0, "world_info_budget")
