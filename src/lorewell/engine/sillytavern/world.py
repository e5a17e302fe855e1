"""Compiles a book for SillyTavern's scan: all that does not depend on the turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from lorewell.engine.matching.key_table import KeyTable
from lorewell.engine.matching.literal import LiteralIndex
from lorewell.engine.sillytavern.decorators import split_decorators
from lorewell.engine.sillytavern.entry.fields import group_of
from lorewell.engine.sillytavern.entry.table import TABLE
from lorewell.engine.sillytavern.entry.view import file_view, sillytavern_view
from lorewell.engine.sillytavern.hashing import hash_all
from lorewell.engine.sillytavern.javascript import as_parsed, as_text, in_object_order, json_text
from lorewell.engine.sillytavern.scan_entry import Object, ScanEntry, read_scan_entry, steps_to_read
from lorewell.engine.steps import Steps
from lorewell.model import BookCreate, Entry

# Fields for entries that were not written for SillyTavern and leave them out.
_DEFAULTS: Object = {
    field.world: field.codec.write(field.default)
    for field in TABLE
    if not field.optional and "/" not in field.world
}


def split_object(entry: Object, book: str) -> dict[str, Any]:
    """Return an entry's object as in SillyTavern's list: with its book, without decorators."""
    rest = {name: value for name, value in entry.items() if name not in ("uid", "world")}
    uid = {"uid": entry["uid"]} if "uid" in entry else {}
    fields = as_parsed({**uid, "world": entry.get("world", book), **rest})
    content = fields.get("content")
    decorators, text = split_decorators(content if isinstance(content, str) else "")
    return {**fields, "decorators": list(decorators), "content": text}


class PlainKeyIndex(NamedTuple):
    """The plain keys of a book that are matched with case, or those matched without.

    Attributes:
        automaton: finds all of them; by pattern, the entries that a key wakes wherever it occurs.
        as_word: by pattern, the entries that a key wakes only where it stands alone; a pattern is
            missing where no entry asks for whole words.
    """

    automaton: LiteralIndex
    as_word: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SillyTavernWorld:
    """A compiled book. Immutable; safe to share between threads.

    Attributes:
        entries: in object order of the book.
        by_hash: the indexes of the entries with each hash; several if entries are identical.
        by_id: the indexes of the entries with each id.
        always: indexes of the entries that may activate without a plain key: by a flag, or by a
            key that no automaton finds.
        filtered: indexes of the entries that checks may skip, whatever their keys.
        literals: returns the keys matched without and with case, given the defaults for case and
            whole words. Built on the first call.
        deepest: the greatest scan depth that an entry sets for itself.
        ignored_rules: by entry id, the rules of ours that SillyTavern does not have.
    """

    name: str
    entries: tuple[ScanEntry, ...]
    by_hash: Mapping[object, Sequence[int]]
    by_id: Mapping[str, Sequence[int]]
    always: tuple[int, ...]
    filtered: tuple[int, ...]
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
    """Compile a book.

    Args:
        name: the book's name in SillyTavern; part of ids and hashes.
        entries: its entries' objects, in object order; see `world_entries`.
        ignored_rules: by entry id, the rules of ours that SillyTavern does not have.
        steps: the step budget, for a book inside a request; None for no limit.

    Raises:
        TooExpensiveError: compiling needs more than `steps`.
    """
    texts, objects = [], []
    for entry in entries:
        if steps is not None:
            steps.spend("compile", steps_to_read(entry))
        fields = split_object(entry, name)
        objects.append(fields)
        texts.append(json_text(fields))
    hashes = hash_all(texts, steps)
    compiled = tuple(
        read_scan_entry(fields, digest=digest)
        for fields, digest in zip(objects, hashes, strict=True)
    )
    by_id: dict[str, list[int]] = {}
    by_hash: dict[object, list[int]] = {}
    for index, each in enumerate(compiled):
        by_id.setdefault(each.id, []).append(index)
        by_hash.setdefault(each.hash, []).append(index)
    return SillyTavernWorld(
        name=name,
        entries=compiled,
        by_hash=by_hash,
        by_id=by_id,
        always=tuple(index for index, each in enumerate(compiled) if _needs_no_plain_key(each)),
        filtered=tuple(index for index, each in enumerate(compiled) if _may_be_filtered(each)),
        literals=cache(lambda case, whole: _index_keys(compiled, case=case, whole=whole)),
        deepest=max((depth for each in compiled if (depth := each.scan_depth or 0) > 0), default=0),
        ignored_rules=ignored_rules or {},
    )


def with_entry(world: SillyTavernWorld, index: int, fields: Object) -> SillyTavernWorld:
    """Return a compiled book with one entry changed, without compiling the others again.

    The entry is checked in every loop, whether one of its keys is found or not; it activates as in
    a book that is compiled anew.

    Args:
        world: the compiled book.
        index: the entry.
        fields: its new object, in the form of a world-info file; its `uid` is the old one.
    """
    split = split_object(fields, world.name)
    digest = hash_all([json_text(split)], None)[0]
    entry = read_scan_entry(split, digest=digest)
    entries = (*world.entries[:index], entry, *world.entries[index + 1 :])
    old = world.entries[index].hash
    by_hash = {**world.by_hash, old: [each for each in world.by_hash.get(old, ()) if each != index]}
    by_hash[digest] = sorted({*by_hash.get(digest, ()), index})
    deepest = entry.scan_depth or 0

    def literals(case: bool, whole: bool) -> tuple[PlainKeyIndex, PlainKeyIndex]:  # noqa: FBT001  as above
        folded, exact = world.literals(case, whole)
        tables = KeyTable(folded.automaton), KeyTable(exact.automaton)
        _add_keys(entry, index, tables, case=case, whole=whole)
        return _extended(folded, tables[0]), _extended(exact, tables[1])

    return replace(
        world,
        entries=entries,
        by_hash=by_hash,
        always=tuple(sorted({*world.always, index})),
        filtered=tuple(sorted({*world.filtered, index})),
        literals=cache(literals),
        deepest=max(world.deepest, deepest) if deepest > 0 else world.deepest,
    )


def _extended(known: PlainKeyIndex, table: KeyTable) -> PlainKeyIndex:
    return PlainKeyIndex(table.index(), {**known.as_word, **table.woken_as_word()})


def _needs_no_plain_key(entry: ScanEntry) -> bool:
    return entry.constant or entry.activates or any(key.plain is None for key in entry.keys)


def _may_be_filtered(entry: ScanEntry) -> bool:
    """Return whether a check may skip an entry; a stored cooldown may do so as well."""
    if entry.disabled or entry.suppressed or not entry.has_keys or entry.limits is not None:
        return True
    return entry.delay is not None or bool(entry.level) or entry.excludes_recursion


def world_entries(entries: Mapping[str, Object]) -> list[Object]:
    """Return the entries of a world-info file in SillyTavern's order (object order)."""
    return [entries[name] for name in in_object_order(entries)]


def _index_keys(
    entries: Sequence[ScanEntry], *, case: bool, whole: bool
) -> tuple[PlainKeyIndex, PlainKeyIndex]:
    """Index all plain keys; only primary keys wake their entry."""
    tables = KeyTable(), KeyTable()
    for index, entry in enumerate(entries):
        _add_keys(entry, index, tables, case=case, whole=whole)
    return _plain_keys(tables[0]), _plain_keys(tables[1])


def _add_keys(
    entry: ScanEntry, index: int, tables: tuple[KeyTable, KeyTable], *, case: bool, whole: bool
) -> None:
    """Add the plain keys of an entry to the table without case or the one with case."""
    counts = case if entry.case is None else entry.case
    words = whole if entry.whole is None else entry.whole
    table = tables[counts]
    for number, key in enumerate((*entry.keys, *entry.secondary)):
        if key.plain is None:
            continue
        wanted = key.plain.exact if counts else key.plain.folded
        wakes = index if number < len(entry.keys) else None
        if words and key.plain.single:
            table.track_word(table.add(wanted), wakes=wakes)
        else:
            table.add(wanted, wakes=wakes)


def _plain_keys(table: KeyTable) -> PlainKeyIndex:
    return PlainKeyIndex(table.index(), table.woken_as_word())


def compile_stored(
    book: BookCreate, *, name: str | None = None, steps: Steps | None = None
) -> SillyTavernWorld:
    """Compile a stored book.

    Args:
        book: one revision. Entries from world-info files are scanned in their `file_view`, all
            others in their `sillytavern_view`.
        name: the book's name in SillyTavern; by default its own name.
        steps: the budget; no limit if not given.

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
    """Return the entry's object: as in its world-info file, or else with all fields."""
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
