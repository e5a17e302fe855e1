"""The books of a turn under the policy `sillytavern`: bound, named or given, then compiled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lorewell.app.bindings import find_bound_under
from lorewell.app.changes import apply_changes
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.documents import load_model
from lorewell.app.loaded import check_size, find_or_read, find_rows
from lorewell.app.ports import Transaction
from lorewell.app.rows import RevisionRow
from lorewell.app.runtime.cache import BookCache, CacheKey
from lorewell.app.services import Services
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.world import (
    SillyTavernWorld,
    compile_stored as compile_native,
    compile_world,
    world_entries,
)
from lorewell.engine.steps import NO_LIMIT, Steps
from lorewell.model import BookRef
from lorewell.model.activate import AttachedBook
from lorewell.model.conversation import AttachedChanges, AttachedNative

Item = AttachedBook | AttachedNative | AttachedChanges
POLICY: Final = "sillytavern"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWorld:
    """A book of a turn, with its data from the database and the cache.

    Attributes:
        item: its item in the request; for a bound book, the equivalent item.
        index: its index in the request; -1 for a bound book.
        row: its revision, if it is stored.
        world: its compiled form, if cached.
        content: the content of its revision, if it is not compiled yet.
    """

    item: Item
    index: int
    row: RevisionRow | None = None
    world: SillyTavernWorld | None = None
    content: bytes | None = None


def find_worlds(
    tx: Transaction, tenant_id: str, prompt_id: str | None, items: Sequence[Item]
) -> list[LoadedWorld]:
    """Return the books of the prompt, then those of the request, without loading them.

    Raises:
        BindingInvalidError: a binding of the prompt names a missing book or revision.
        PolicyMismatchError: the prompt's books run under another policy.
        BookNotFoundError, RevisionNotFoundError: a stored book or revision is missing.
    """
    refs = [
        BookRef(book_id=item.book_id, revision=item.revision)
        for item in items
        if not isinstance(item, AttachedNative) and item.book_id is not None
    ]
    named = {ref.book_id for ref in refs}
    found = [] if prompt_id is None else _find_bound(tx, tenant_id, prompt_id, named)
    rows = iter(find_rows(tx, tenant_id, refs))
    for index, item in enumerate(items):
        is_given = isinstance(item, AttachedNative) or item.book_id is None
        row = None if is_given else next(rows)
        found.append(LoadedWorld(item=item, index=index, row=row))
    return found


def load_worlds(
    tx: Transaction, cache: BookCache, tenant_id: str, prompt_id: str | None, items: Sequence[Item]
) -> list[LoadedWorld]:
    """Return the books as `find_worlds` does, with their compiled form or content.

    Raises:
        LorewellError: as `find_worlds`.
    """
    return [_load(tx, cache, each) for each in find_worlds(tx, tenant_id, prompt_id, items)]


def _find_bound(
    tx: Transaction, tenant_id: str, prompt_id: str, named: set[str]
) -> list[LoadedWorld]:
    bound = find_bound_under(tx, tenant_id, prompt_id, POLICY)
    return [
        LoadedWorld(item=AttachedBook(**book.model_dump()), index=-1, row=row)
        for book, row in zip(bound.books, bound.rows, strict=True)
        if row.book_id not in named
    ]


def _load(tx: Transaction, cache: BookCache, found: LoadedWorld) -> LoadedWorld:
    item, row = found.item, found.row
    if row is None or isinstance(item, AttachedNative):
        return found
    key = _stored_key(item, row) if isinstance(item, AttachedBook) else None
    world, content = find_or_read(tx, cache, key, row)
    return replace(found, world=world, content=content)


async def compile_stored(
    services: Services, turn: ComputeTurn, loaded: Sequence[LoadedWorld]
) -> list[LoadedWorld]:
    """Return the books with the unchanged stored ones compiled."""
    return [
        replace(each, world=await _compiled(services, turn, each), content=None)
        if each.row is not None and isinstance(each.item, AttachedBook)
        else each
        for each in loaded
    ]


async def _compiled(services: Services, turn: ComputeTurn, loaded: LoadedWorld) -> SillyTavernWorld:
    if loaded.world is not None:
        return loaded.world
    key = _key(loaded)
    assert key is not None  # noqa: S101  it is stored
    return await services.cache.get(key, turn, lambda steps: _compile(loaded, steps))


def attach_worlds(
    services: Services, turn: ComputeTurn, loaded: Sequence[LoadedWorld]
) -> list[Attached]:
    """Return the books compiled, in order; the unchanged stored ones are compiled already.

    Given or changed books in Lorewell's own format are compiled for this request only.

    Raises:
        ValidationFailedError: a change does not fit its book.
    """
    return [Attached(each.item.source, _world(services.cache, turn, each)) for each in loaded]


def make_library(
    services: Services, loaded: Sequence[LoadedWorld], attached: Sequence[Attached]
) -> Library:
    """Return the books as a library to scan; its order of entries is cached.

    Raises:
        SnapshotTooLargeError: the books are too large in total.
    """
    keys = [_key(each) for each in loaded]
    if None in keys:
        return _library(services, attached)
    sources = tuple(each.source for each in attached)
    name = CacheKey(Library, (sources, tuple(keys)))
    library = services.cache.find(name)
    if library is None:
        library = _library(services, attached)
        services.cache.hold(name, library)
    return library


def _library(services: Services, attached: Sequence[Attached]) -> Library:
    worlds = [each.world for each in attached]
    check_size(
        services.limits,
        entries=sum(len(world.entries) for world in worlds),
        chars=sum(len(entry.content) for world in worlds for entry in world.entries),
    )
    return Library(attached)


def _key(loaded: LoadedWorld) -> CacheKey[SillyTavernWorld] | None:
    """Return the cache key of the compiled form; None if it is for one request only."""
    item, row = loaded.item, loaded.row
    if not isinstance(item, AttachedBook):
        return None
    if row is not None:
        return _stored_key(item, row)
    # Hosts send the same book turn after turn. The order of its members matters, so it is hashed.
    # Entry by entry: encoding a large book at once would block all other threads.
    digest = hashlib.sha256()
    for each in (item.entries or {}).items():
        digest.update(json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode())
    return CacheKey(SillyTavernWorld, (item.name, digest.digest()))


def _stored_key(item: AttachedBook, row: RevisionRow) -> CacheKey[SillyTavernWorld]:
    return CacheKey(SillyTavernWorld, (item.name, row.book_id, row.revision, row.content_hash))


def _world(cache: BookCache, turn: ComputeTurn, loaded: LoadedWorld) -> SillyTavernWorld:
    if loaded.world is not None:
        return loaded.world
    key = _key(loaded)
    world = None if key is None else cache.find(key)
    if world is None:
        # A budget of its own: the cost of a turn must not depend on the cache.
        is_given = isinstance(loaded.item, AttachedBook) and loaded.item.entries is not None
        world = _compile(loaded, turn.new_steps(None if is_given else NO_LIMIT))
        if key is not None:
            cache.hold(key, world)
    return world


def _compile(loaded: LoadedWorld, steps: Steps) -> SillyTavernWorld:
    item = loaded.item
    if isinstance(item, AttachedNative):
        return compile_native(item.book, name=item.name, steps=steps)
    if isinstance(item, AttachedBook) and item.entries is not None:
        return compile_world(item.name or "", world_entries(item.entries), steps=steps)
    book = load_model(loaded.content or b"", watch=steps.watch)
    if isinstance(item, AttachedChanges):
        book = apply_changes(book, item, "books", loaded.index)
    return compile_native(book, name=item.name, steps=steps)
