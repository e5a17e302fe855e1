"""The books of a turn under the policy `sillytavern`: bound, named or given, and compiled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lorewell.app.bindings import find_bound_under
from lorewell.app.cache import BookCache, CacheKey
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.documents import load_model
from lorewell.app.loaded import check_size, find_rows
from lorewell.app.native.selection import changed
from lorewell.app.ports import Transaction
from lorewell.app.rows import RevisionRow
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
    """A book of a turn, as far as the database knows it.

    Attributes:
        item: how it was named or given; of a bound one, how it would have been named.
        index: its place in the request; -1 for a bound one.
        row: its revision, if it is stored.
        world: what it was compiled to before.
        content: of its revision, where that is still to be compiled.
    """

    item: Item
    index: int
    row: RevisionRow | None = None
    world: SillyTavernWorld | None = None
    content: bytes | None = None


def find_worlds(
    tx: Transaction, tenant_id: str, prompt_id: str | None, items: Sequence[Item]
) -> list[LoadedWorld]:
    """Return the books of a prompt, then those that are named, with nothing of them loaded yet.

    Raises:
        BindingInvalidError: a binding of the prompt names a book or revision that is gone.
        PolicyMismatchError: the prompt's books run under another policy.
        BookNotFoundError, RevisionNotFoundError: a stored book is not there.
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
    """Return the books as `find_worlds` does, with what is needed to compile them.

    Raises:
        LorewellError: as `find_worlds`.
    """
    return [_load(tx, cache, each) for each in find_worlds(tx, tenant_id, prompt_id, items)]


def _find_bound(
    tx: Transaction, tenant_id: str, prompt_id: str, named: set[str]
) -> list[LoadedWorld]:
    rows = find_bound_under(tx, tenant_id, prompt_id, POLICY)
    return [
        LoadedWorld(
            item=AttachedBook(book_id=row.book_id, revision=row.revision), index=-1, row=row
        )
        for row in rows
        if row.book_id not in named
    ]


def _load(tx: Transaction, cache: BookCache, found: LoadedWorld) -> LoadedWorld:
    item, row = found.item, found.row
    if row is None or isinstance(item, AttachedNative):
        return found
    world = cache.find(_stored_key(item, row)) if isinstance(item, AttachedBook) else None
    content = None if world is not None else tx.get_content(row.tenant_id, row.content_hash)
    return replace(found, world=world, content=content)


async def compile_stored(
    services: Services, turn: ComputeTurn, loaded: Sequence[LoadedWorld]
) -> list[LoadedWorld]:
    """Return the books with those compiled that are as they are stored."""
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
    """Return the books compiled, in their order; the stored ones are compiled already.

    Books in our own format that are given or changed are compiled for one request alone.

    Raises:
        ValidationFailedError: a change does not fit to its book.
    """
    return [Attached(each.item.source, _world(services.cache, turn, each)) for each in loaded]


def make_library(
    services: Services, loaded: Sequence[LoadedWorld], attached: Sequence[Attached]
) -> Library:
    """Return the books ready to be scanned, in an order that is worked out once.

    Raises:
        SnapshotTooLargeError: the books hold too much together.
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
        chars=sum(len(lore.content) for world in worlds for lore in world.entries),
    )
    return Library(attached)


def _key(loaded: LoadedWorld) -> CacheKey[SillyTavernWorld] | None:
    """Return what the compiled form is held under; None if it is made for one request alone."""
    item, row = loaded.item, loaded.row
    if not isinstance(item, AttachedBook):
        return None
    if row is not None:
        return _stored_key(item, row)
    # Hosts send the same book turn after turn. The order of its members counts, so it is kept.
    # Entry by entry: to write a large book at once keeps all other threads waiting.
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
        # Not from the budget of the turn: what that costs depends on nothing that is cached.
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
        book = changed(book, item, "books", loaded.index)
    return compile_native(book, name=item.name, steps=steps)
