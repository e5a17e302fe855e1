"""The changes that are tried under the policy `native`: a closed list for each gate.

Source: docs/explain.md, "The changes that are tried".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal

from lorewell.engine.matching.keys import LiteralKey
from lorewell.engine.native.keywords import NOTHING
from lorewell.insight.explain.edits import Change, Edit, EntryPlace, Gone, of_entry, of_request
from lorewell.insight.explain.native_filters import filter_changes, seed_changes
from lorewell.insight.explain.native_gates import FILTERS, NativeView
from lorewell.insight.explain.near import find_key, find_near

_MAX_QUERY_CHARS, _MAX_KEYS, _MAX_SCAN_DEPTH = 8_000, 200, 100
_MAX_TOKENS, _MAX_ENTRIES, _MAX_ROUNDS, _MAX_RECALLED = 32_000, 200, 5, 100
_MAX_LEVEL = 1_000_000
_FEW = 12  # other entries, keys and levels that are tried
_WORD = re.compile(r"\w+")
_WORDS = 3
_LOGICS = ("and_any", "and_all", "not_any", "not_all")


def native_changes(view: NativeView, *, fixed_text: bool) -> list[Change]:
    """Return the changes to try, each once.

    Args:
        view: the entry in a decided turn.
        fixed_text: whether texts and keys stay as they are, because vectors were made from them.
    """
    unique: list[Change] = []
    for change in _changes(view):
        if change not in unique and not (fixed_text and _is_text(change)):
            unique.append(change)
    return unique


def _changes(view: NativeView) -> Iterator[Change]:
    gate = view.decisive()
    own = EntryPlace(view.number, view.entry.index)
    if gate is None:
        yield from _against_entry(view, own)
        yield from _against_keys(view, own)
        yield from _against_room(view, own)
    elif gate in FILTERS.values():
        yield from filter_changes(gate, own, view.entry, view.decided.turn.request)
    elif gate in ("keys", "secondary"):
        yield from _key_changes(view, own)
        yield from _recursion_changes(view, own)
        yield from _recall_changes(view)
        yield from _firing_texts(view)
        yield of_entry(own, "constant", value=True)
    elif gate == "request":
        yield from _request_changes(view)
    elif gate == "package":
        yield from _package_changes(view, own)
    else:
        yield from _room_changes(view, own, gate)


def _is_text(change: Change) -> bool:
    return change.kind == "text" or any(edit.path[0] == "keys" for edit in change.edits)


def _key_changes(view: NativeView, own: EntryPlace) -> Iterator[Change]:
    """Yield changes of the fields that keys depend on."""
    spec = view.entry.spec
    yield from _depth_changes(view, own)
    if spec.match_whole_words:
        yield of_entry(own, "match_whole_words", value=False)
    if spec.case_sensitive:
        yield of_entry(own, "case_sensitive", value=False)
    if spec.selective and spec.secondary_keys:
        yield of_entry(own, "selective", value=False)
        for logic in _LOGICS:
            if logic != spec.logic:
                yield of_entry(own, "logic", logic)
    if len(spec.keys) < _MAX_KEYS:
        for key in _new_keys(view):
            yield of_entry(own, "keys", key, "-")


def _depth_changes(view: NativeView, own: EntryPlace) -> Iterator[Change]:
    for depth in _depths(view):
        yield of_entry(own, "scan_depth", depth)
        if view.entry.spec.scan_depth is None:
            yield of_request("scan_depth", depth)


def _recursion_changes(view: NativeView, own: EntryPlace) -> Iterator[Change]:
    if view.decided.turn.activation.unheard:  # further rounds search other texts, if there are any
        for rounds in range(view.decided.turn.request.max_recursion_rounds + 1, _MAX_ROUNDS + 1):
            yield of_request("max_recursion_rounds", rounds)
    if view.entry.spec.exclude_recursion:
        yield of_entry(own, "exclude_recursion", value=False)
    for waker in _wakers(view):
        yield of_entry(waker, "prevent_recursion", value=False)


def _recall_changes(view: NativeView) -> Iterator[Change]:
    request = view.decided.turn.request
    if request.strategy == "hybrid":
        yield of_request("recall_limit", _MAX_RECALLED)
        if request.recall_floor is not None:
            yield of_request("recall_floor", None)
        if request.recall_gate == "strict":
            yield of_request("recall_gate", "loose")


def _depths(view: NativeView) -> list[int]:
    """Return the scan depths at which a message with a key of the entry is the oldest one."""
    turn = view.decided.turn
    keys = view.near_keys()
    number = len(turn.request.history) + 1
    texts = [message.content for message in turn.request.history] + [turn.request.query]
    if view.entry.has_regex:
        depths = [*range(1, number + 1)]
    else:
        depths = [
            number - index
            for index, text in enumerate(texts)
            if any(find_key(text, key, turn.steps) is not None for key in keys)
        ]
    wanted = {*depths, *(depth - 1 for depth in depths)} - {view.depth}
    return sorted(depth for depth in wanted if 0 <= depth <= _MAX_SCAN_DEPTH)


def _new_keys(view: NativeView) -> list[str]:
    """Return texts of the window as keys: what nearly matched, then the longest words."""
    seen = [text for text in view.texts() if text.unseen is None]
    near = [miss.found for miss in find_near(view.near_keys(), seen, view.decided.turn.steps)]
    newest = seen[0].text if seen else ""
    words = sorted(set(_WORD.findall(newest)), key=lambda word: (-len(word), word))
    found = dict.fromkeys([*near, *(word[:_FEW] for word in words[:_WORDS])])
    return [key for key in found if key.strip()][:_FEW]


def _firing_texts(view: NativeView) -> Iterator[Change]:
    """Yield the query with keys of the entry at its end."""
    query = view.decided.turn.request.query
    entry = view.entry
    keys = [key.text for key in entry.primary if isinstance(key, LiteralKey)][:_WORDS]
    if entry.expression is not None:
        keys.append(" ".join(entry.expression.wanted))
    secondary = " ".join(key.text for key in entry.secondary if isinstance(key, LiteralKey))
    wants_secondary = bool(secondary) and entry.spec.logic in ("and_any", "and_all")
    texts = [f"{key} {secondary}" for key in keys] if wants_secondary else keys
    for text in texts:
        if len(query) + 1 + len(text) <= _MAX_QUERY_CHARS:
            yield Change("text", (Edit(path=("query",), value=f"{query} {text}"),))


def _wakers(view: NativeView) -> list[EntryPlace]:
    """Return the active entries whose text has a key of this entry but may not wake others."""
    found = []
    steps = view.decided.turn.steps
    keys = view.near_keys()
    for text in view.texts():
        if text.entry is None or text.unseen != "not_waking":
            continue
        if any(find_key(text.text, key, steps) is not None for key in keys):
            place = _place_of(view, text.entry)
            if place is not None:
                found.append(place)
    return found[:_FEW]


def _place_of(view: NativeView, full_id: str) -> EntryPlace | None:
    for number, book in enumerate(view.decided.turn.snapshot):
        entry = book.find(full_id)
        if entry is not None:
            return EntryPlace(number, entry.index)
    return None


def _package_changes(view: NativeView, own: EntryPlace) -> Iterator[Change]:
    """Yield the changes that may make an entry's requirements available."""
    eligible, request = view.decided.turn.eligible, view.decided.turn.request
    yield of_entry(own, "requires", ())
    for index in view.entry.closure.members:
        member = view.book.entries[index]
        refusal = eligible.refusal(member)
        if refusal is not None:
            place = EntryPlace(view.number, index)
            yield from filter_changes(FILTERS[refusal.reason], place, member, request)


def _room_changes(view: NativeView, own: EntryPlace, gate: str) -> Iterator[Change]:
    """Yield the changes that may make room for an entry's package."""
    yield from _priorities(view, own)
    yield of_entry(own, "constant", value=not view.entry.spec.constant)
    match gate:
        case "conflict":
            yield from _conflict_changes(view, own)
        case "constant_budget":
            yield from _ratios(view)
        case _:
            yield from _limit_changes(view, gate)
    for full_id in _losers(view):
        place = _place_of(view, full_id)
        if place is not None:
            yield of_entry(place, "enabled", value=False)


def _conflict_changes(view: NativeView, own: EntryPlace) -> Iterator[Change]:
    yield of_entry(own, "conflict_key", None)
    figures = view.decided.packing.dropped[view.entry.full_id].figures
    holder = _place_of(view, figures.beaten_by or "")
    if holder is not None:
        yield of_entry(holder, "conflict_key", None)
        yield of_entry(holder, "enabled", value=False)
        yield of_entry(holder, "priority", max(view.entry.spec.priority - 1, -_MAX_LEVEL))


def _limit_changes(view: NativeView, gate: str) -> Iterator[Change]:
    """Yield the least limit that the package needs now, and the greatest one."""
    request, packing = view.decided.turn.request, view.decided.packing
    dropped = packing.dropped[view.entry.full_id]
    if gate == "max_entries":
        new = sum(
            view.book.entries[index].full_id not in packing.chosen
            for index in view.entry.closure.members
        )
        for most in (len(packing.chosen) + new, _MAX_ENTRIES):
            if request.max_entries < most <= _MAX_ENTRIES:
                yield of_request("max_entries", most)
    else:
        missing = (dropped.figures.tokens or 0) - (dropped.figures.room or 0)
        for budget in (request.token_budget + missing, _MAX_TOKENS):
            if request.token_budget < budget <= _MAX_TOKENS:
                yield of_request("token_budget", budget)
        for wrapper in ("short", "plain"):
            if request.wrapper != wrapper:
                yield of_request("wrapper", wrapper)


def _losers(view: NativeView) -> list[str]:
    """Return the selected entries that would be missed least: the lowest priorities first."""
    chosen = view.decided.packing.chosen
    roots = [each for full_id, each in chosen.items() if each.root == full_id]
    roots.sort(key=lambda each: (each.entry.spec.priority, each.entry.full_id))
    return [each.entry.full_id for each in roots[:_FEW]]


def _priorities(view: NativeView, own: EntryPlace) -> Iterator[Change]:
    """Yield one above each priority of the entries ahead, the lowest first, then the highest."""
    chosen = view.decided.packing.chosen.values()
    mine = view.entry.spec.priority
    levels = sorted({each.entry.spec.priority + 1 for each in chosen} - {mine})
    levels = [level for level in levels if mine < level <= _MAX_LEVEL]
    for level in dict.fromkeys([*levels[:_FEW], *levels[-1:]]):
        yield of_entry(own, "priority", level)


def _ratios(view: NativeView) -> Iterator[Change]:
    request, packing = view.decided.turn.request, view.decided.packing
    figures = packing.dropped[view.entry.full_id].figures
    if request.token_budget:
        cap = int(Decimal(repr(request.constant_budget_ratio)) * request.token_budget)
        needed = Decimal(cap - (figures.room or 0) + (figures.tokens or 0)) / request.token_budget
        ratio = float(needed.quantize(Decimal("0.0001"), ROUND_CEILING))
        if request.constant_budget_ratio < ratio < 1:
            yield of_request("constant_budget_ratio", ratio)
    if request.constant_budget_ratio < 1:
        yield of_request("constant_budget_ratio", 1.0)


def _request_changes(view: NativeView) -> Iterator[Change]:
    """Yield the changes for a required entry that fails the request."""
    failure = view.decided.failure
    failed = None if failure is None else _place_of(view, str(failure.details.get("id")))
    if failed is None or failure is None:
        return
    turn = view.decided.turn
    entry = turn.snapshot[failed.book].entries[failed.entry]
    yield of_entry(failed, "required", value=False)
    yield of_entry(failed, "enabled", value=False)
    match failure.details.get("limit"):
        case "tokens":
            yield of_request("token_budget", _MAX_TOKENS)
        case "entries":
            yield of_request("max_entries", _MAX_ENTRIES)
    if failure.code == "required_placement_unsupported":
        yield from filter_changes("placement", failed, entry, turn.request)


def _against_entry(view: NativeView, own: EntryPlace) -> Iterator[Change]:
    """Yield the changes of fields and flags that may keep a selected entry out."""
    spec = view.entry.spec
    yield of_entry(own, "enabled", value=False)
    if spec.required:
        yield of_entry(own, "required", value=False)
    if spec.constant:
        yield of_entry(own, "constant", value=False)
    if spec.probability > 0:
        yield of_entry(own, "probability", 0)
        yield from seed_changes(view.entry, view.decided.turn.request, passes=False)


def _against_keys(view: NativeView, own: EntryPlace) -> Iterator[Change]:
    """Yield the changes after which keys, texts or other entries may no longer activate it."""
    activation, request = view.decided.turn.activation, view.decided.turn.request
    spec, full_id = view.entry.spec, view.entry.full_id
    yield from _depth_changes(view, own)
    yield of_entry(own, "match_whole_words", value=not spec.match_whole_words)
    yield of_entry(own, "case_sensitive", value=not spec.case_sensitive)
    active = activation.active.get(full_id)
    match = NOTHING if active is None else active.match
    if match.key in spec.keys:
        yield of_entry(own, "keys", Gone.GONE, spec.keys.index(match.key))
    hit = activation.trace(full_id)
    if hit.message is not None and hit.message < len(request.history):
        yield Change("text", (Edit(path=("history", hit.message), value=Gone.GONE),))
    if active is not None and active.why == "recursion":
        yield of_entry(own, "exclude_recursion", value=True)
        for rounds in range(request.max_recursion_rounds):
            yield of_request("max_recursion_rounds", rounds)
        waker = None if hit.woken_by is None else _place_of(view, hit.woken_by)
        if waker is not None:
            yield of_entry(waker, "prevent_recursion", value=True)
            yield of_entry(waker, "enabled", value=False)
    if active is not None and active.why == "hybrid":
        yield of_request("recall_limit", 0)
        yield of_request("strategy", "rules")


def _against_room(view: NativeView, own: EntryPlace) -> Iterator[Change]:
    """Yield the changes that may take the room from a selected entry, or its root."""
    packing, request = view.decided.packing, view.decided.turn.request
    chosen = packing.chosen[view.entry.full_id]
    root = _place_of(view, chosen.root)
    if root is not None and root != own:
        yield of_entry(root, "enabled", value=False)
        yield of_entry(root, "requires", ())
    tokens, room = chosen.figures.tokens, chosen.figures.room
    if tokens is not None and room is not None:
        budget = request.token_budget - room + tokens - 1
        if 0 <= budget < request.token_budget:
            yield of_request("token_budget", budget)
    before = [*packing.chosen].index(view.entry.full_id)
    if before:
        yield of_request("max_entries", before)
    lowest = min(each.entry.spec.priority for each in packing.chosen.values())
    if lowest > -_MAX_LEVEL:
        yield of_entry(own, "priority", lowest - 1)
