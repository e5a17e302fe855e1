"""Turns that wait to be written are bounded, in number and in characters."""

from __future__ import annotations

import asyncio

import pytest

from fakes import MemoryStore
from lorewell import BookCreate, SelectRequest, compile_book, select
from lorewell.app.computing.pool import ComputeLimits, Computing
from lorewell.app.native.selection import KeptSelection
from lorewell.app.runtime import kept
from lorewell.app.runtime.kept import TurnKeeper
from lorewell.app.sillytavern.activation import KeptActivation
from lorewell.bootstrap import SystemClock


@pytest.fixture
def keeper() -> TurnKeeper:
    store = MemoryStore()
    asyncio.run(store.migrate())
    return TurnKeeper(store, SystemClock(), Computing(ComputeLimits()), keep_s=60)


def turn_of(chars: int) -> KeptSelection:
    book = compile_book(BookCreate(name="Harbour"))
    request = SelectRequest(books=(book.ref,), query="x" * chars)
    return KeptSelection(request, select([book], request).snapshot, None)


async def waiting(keeper: TurnKeeper, turns: tuple[int, ...]) -> str:
    """Keep turns of so many characters, named a, b, …; return which of them are there."""
    names = "abcdef"[: len(turns)]
    for name, chars in zip(names, turns, strict=True):
        keeper.keep("demo", name, turn_of(chars))
    return "".join([n for n in names if await keeper.find("demo", n, KeptSelection) is not None])


@pytest.mark.parametrize(
    ("turns", "left"),
    [((40, 40), "ab"), ((40, 40, 40), "bc"), ((10, 90, 20), "c"), ((101,), "")],
)
def test_the_oldest_go_where_too_many_characters_wait(
    monkeypatch: pytest.MonkeyPatch, keeper: TurnKeeper, turns: tuple[int, ...], left: str
) -> None:
    monkeypatch.setattr(kept, "MAX_WAITING_CHARS", 100)
    assert asyncio.run(waiting(keeper, turns)) == left


def test_a_turn_kept_again_counts_once(monkeypatch: pytest.MonkeyPatch, keeper: TurnKeeper) -> None:
    monkeypatch.setattr(kept, "MAX_WAITING_CHARS", 100)

    async def run() -> str:
        for _ in range(5):
            keeper.keep("demo", "a", turn_of(60))
        return await waiting(keeper, (60, 30))

    assert asyncio.run(run()) == "ab"


def test_a_turn_is_read_again_as_it_was(keeper: TurnKeeper) -> None:
    async def run() -> KeptSelection | None:
        keeper.keep("demo", "a", turn_of(60))
        await keeper.flush()
        return await keeper.find("demo", "a", KeptSelection)

    again = asyncio.run(run())
    assert again is not None
    assert again.request == turn_of(60).request


@pytest.mark.parametrize(
    ("settings", "counting"),
    [(None, "plain"), ({}, "plain"), ({"token_counting": "sillytavern-1.18"}, "sillytavern-1.18")],
)
def test_a_kept_turn_counts_as_it_counted_then(
    settings: dict[str, str] | None, counting: str
) -> None:
    """Turns that were kept before `token_counting` existed hold none, and had no surcharge."""
    members = {"context_tokens": 100, **({} if settings is None else {"settings": settings})}
    again = KeptActivation.from_members(members)
    assert again.request.settings.token_counting == counting
    assert KeptActivation.from_members(again.to_members()) == again
