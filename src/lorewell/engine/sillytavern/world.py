"""A book as SillyTavern scans it, and all of it that can be known before a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from lorewell.engine.matching.literal import LiteralIndex
from lorewell.engine.sillytavern.decorators import split_decorators
from lorewell.engine.sillytavern.entry.fields import group_of
from lorewell.engine.sillytavern.entry.table import TABLE
from lorewell.engine.sillytavern.entry.view import file_view, sillytavern_view
from lorewell.engine.sillytavern.hashing import hash_all
from lorewell.engine.sillytavern.javascript import as_parsed, as_text, in_object_order, json_text
from lorewell.engine.sillytavern.lore import Object, ScanEntry, read_lore, work_of
from lorewell.engine.steps import Steps
from lorewell.model import BookCreate, Entry

# What an entry means that was not written for SillyTavern and does not say otherwise.
_DEFAULTS: Object = {
    field.world: field.codec.write(field.default)
    for field in TABLE
    if not field.optional and "/" not in field.world
}


def split_object(entry: Object, book: str) -> dict[str, Any]:
    """Return an entry's object as the list of entries has it: named, decorators split off."""
    rest = {name: value for name, value in entry.items() if name not in ("uid", "world")}
    uid = {"uid": entry["uid"]} if "uid" in entry else {}
    fields = as_parsed({**uid, "world": entry.get("world", book), **rest})
    content = fields.get("content")
    decorators, left = split_decorators(content if isinstance(content, str) else "")
    return {**fields, "decorators": list(decorators), "content": left}


class PlainKeyIndex(NamedTuple):
    """The plain keys of a book for which case does not count, or those for which it does.

    Attributes:
        automaton: of all of them; with each key the entries that it wakes wherever it stands.
        alone: with each key the entries that it wakes only where it stands alone; None if nobody
            asks whether it does.
    """

    automaton: LiteralIndex
    alone: tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SillyTavernWorld:
    """A book, ready to be scanned. Immutable; safe to share between threads.

    Attributes:
        entries: in object order of the book.
        by_hash: the indexes of the entries of each hash: several if they are alike in all.
        by_id: the indexes of the entries of each id.
        always: indexes of the entries that may be candidates without a plain key: flags, or a key
            that no automaton finds.
        barred: indexes of the entries that checks may keep out, whatever their keys.
        literals: gives the keys where case does not count and where it does, for what counts by
            default: case, and whole words. They are built when first asked for.
        deepest: the greatest scan depth that an entry sets for itself.
        ignored_rules: by entry id, the rules of ours that SillyTavern does not know.
    """

    name: str
    entries: tuple[ScanEntry, ...]
    by_hash: Mapping[object, Sequence[int]]
    by_id: Mapping[str, Sequence[int]]
    always: tuple[int, ...]
    barred: tuple[int, ...]
    literals: Callable[[bool, bool], tuple[PlainKeyIndex, PlainKeyIndex]]
    deepest: float
    ignored_rules: Mapping[str, tuple[str, ...]]


def compile_world(
    name: str,
    entries: Iterable[Object],
    *,
    ignored_rules: Mapping[str, tuple[str, ...]] | None = None,
    steps: Steps | None = None,
) -> SillyTavernWorld:
    """Return a book ready to be scanned.

    Args:
        name: the book's name in SillyTavern; ids and hashes hold it.
        entries: its entries' objects, in object order; see `world_entries`.
        ignored_rules: by entry id, what else the entries say and SillyTavern does not know.
        steps: what it may cost, of a book that comes with a request; a stored one has no limit.

    Raises:
        TooExpensiveError: it needs more than `steps`.
    """
    texts, objects = [], []
    for entry in entries:
        if steps is not None:
            steps.spend("compile", work_of(entry))
        fields = split_object(entry, name)
        objects.append(fields)
        texts.append(json_text(fields))
    hashes = hash_all(texts, steps)
    lore = tuple(read_lore(o, digest=digest) for o, digest in zip(objects, hashes, strict=True))
    by_id: dict[str, list[int]] = {}
    by_hash: dict[object, list[int]] = {}
    for index, each in enumerate(lore):
        by_id.setdefault(each.id, []).append(index)
        by_hash.setdefault(each.hash, []).append(index)
    return SillyTavernWorld(
        name=name,
        entries=lore,
        by_hash=by_hash,
        by_id=by_id,
        always=tuple(index for index, each in enumerate(lore) if _needs_no_sight(each)),
        barred=tuple(index for index, each in enumerate(lore) if _may_be_barred(each)),
        literals=cache(lambda case, whole: _literals(lore, case=case, whole=whole)),
        deepest=max((depth for each in lore if (depth := each.scan_depth or 0) > 0), default=0),
        ignored_rules=ignored_rules or {},
    )


def _needs_no_sight(lore: ScanEntry) -> bool:
    return lore.constant or lore.activates or any(key.plain is None for key in lore.keys)


def _may_be_barred(lore: ScanEntry) -> bool:
    """Return whether a check may keep an entry out; a cooldown that is stored may do so, too."""
    if lore.disabled or lore.suppressed or not lore.has_keys or lore.limits is not None:
        return True
    return lore.delay is not None or bool(lore.level) or lore.excludes_recursion


def world_entries(entries: Mapping[str, Object]) -> list[Object]:
    """Return the entries of a world-info file, in the order in which SillyTavern walks them."""
    return [entries[name] for name in in_object_order(entries)]


def _literals(
    entries: Sequence[ScanEntry], *, case: bool, whole: bool
) -> tuple[PlainKeyIndex, PlainKeyIndex]:
    """Return the automata of all plain keys; an entry is woken by its primary ones alone."""
    folded, exact = _KeyTable(), _KeyTable()
    for index, lore in enumerate(entries):
        counts = case if lore.case is None else lore.case
        words = whole if lore.whole is None else lore.whole
        for number, key in enumerate((*lore.keys, *lore.secondary)):
            if key.plain is not None:
                wanted = key.plain.exact if counts else key.plain.folded
                woken = (exact if counts else folded).add(wanted, alone=words and key.plain.single)
                if number < len(lore.keys):
                    woken.append(index)
    return folded.literals(), exact.literals()


class _KeyTable:
    """Collects keys, each once, with the entries that each wakes."""

    def __init__(self) -> None:
        self._anywhere: dict[str, list[int]] = {}
        self._alone: dict[str, list[int]] = {}

    def add(self, wanted: str, *, alone: bool) -> list[int]:
        """Return the entries that a key wakes, or wakes where it stands alone, to be added to."""
        anywhere = self._anywhere.setdefault(wanted, [])
        return self._alone.setdefault(wanted, []) if alone else anywhere

    def literals(self) -> PlainKeyIndex:
        """Return the automaton of all keys."""
        alone = [self._alone.get(wanted) for wanted in self._anywhere]
        return PlainKeyIndex(
            LiteralIndex(
                tuple(self._anywhere), [tuple(woken) for woken in self._anywhere.values()]
            ),
            tuple(None if woken is None else tuple(woken) for woken in alone),
        )


def compile_stored(
    book: BookCreate, *, name: str | None = None, steps: Steps | None = None
) -> SillyTavernWorld:
    """Return a stored book ready to be scanned.

    Args:
        book: its revision; entries are scanned as `file_view` shows those of world-info
            files, and `sillytavern_view` all others.
        name: what SillyTavern calls it; its own name if not given.
        steps: what it may cost; no limit if not given.

    Raises:
        TooExpensiveError: it needs more than `steps`.
    """
    name = book.name if name is None else name
    views = []
    for entry in book.entries:
        if steps is not None:
            steps.watch()
        views.append(_view(entry))
    ignored = {
        f"{as_text(view.get('world', name))}.{as_text(view['uid'])}": rules
        for view, entry in zip(views, book.entries, strict=True)
        if (rules := _ignored_rules(entry))
    }
    return compile_world(name, views, ignored_rules=ignored, steps=steps)


def _view(entry: Entry) -> Object:
    """Return the entry's object: from a world-info file as it is read there, else in full."""
    view = file_view(entry)
    return {**_DEFAULTS, **sillytavern_view(entry)} if view is None else view


def _ignored_rules(entry: Entry) -> tuple[str, ...]:
    has = {
        "requires": bool(entry.requires),
        "conditions": bool(entry.conditions),
        "conditions_text": bool(entry.conditions_text),
        "key_expression": entry.key_expression is not None,
        "conflict_key": bool(entry.conflict_key) and not group_of(entry.conflict_key),
        "required": entry.required,
        "audience": entry.audience != Entry.model_fields["audience"].default,
    }
    return tuple(name for name, there in has.items() if there)
