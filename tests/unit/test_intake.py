"""The turns of callers."""

from __future__ import annotations

import asyncio
from functools import partial

from lorewell.http.intake import MAX_BEGUN, Intake, RequestSlot


class Turns:
    """Requests of callers, and those that have begun."""

    def __init__(self) -> None:
        self.intake = Intake(asyncio.get_running_loop())
        self.begun: list[str] = []
        self.slots: list[RequestSlot] = []

    def enter(self, caller: str, count: int = 1, *, answered: int = 0, name: str = "") -> None:
        for _ in range(count):
            begin = partial(self.begun.append, name or caller)
            slot = RequestSlot(self.intake, caller, begin, answered=answered)
            self.slots.append(slot)
            self.intake.enter(slot)


def test_a_crowd_does_not_delay_another_caller() -> None:
    async def run() -> None:
        turns = Turns()
        turns.enter("crowd", 1_000)
        turns.enter("灯")
        assert turns.begun == ["crowd"] * MAX_BEGUN + ["灯"]

    asyncio.run(run())


def test_callers_begin_in_turn() -> None:
    async def run() -> None:
        turns = Turns()
        turns.enter("a", MAX_BEGUN + 3)
        turns.enter("b", MAX_BEGUN + 3)
        first, turns.begun = turns.slots[:], []
        for slot in first:
            slot.leave()
        await asyncio.sleep(0)
        assert not turns.begun  # those that waited have left as well
        turns.enter("a", MAX_BEGUN + 2)
        turns.enter("b", MAX_BEGUN + 2)
        waiting = turns.slots[len(first) :]
        begun = len(turns.begun)
        for slot in [*waiting[:2], *waiting[MAX_BEGUN + 2 : MAX_BEGUN + 4]]:
            slot.leave()
        for _ in range(10):
            await asyncio.sleep(0)
        assert turns.begun[begun:] == ["a", "b", "a", "b"]

    asyncio.run(run())


def test_a_new_connection_comes_before_busy_ones_of_its_caller() -> None:
    async def run() -> None:
        turns = Turns()
        turns.enter("a", MAX_BEGUN)
        turns.enter("a", 3, answered=7)
        turns.enter("a", name="new")
        turns.slots[0].leave()
        for _ in range(3):
            await asyncio.sleep(0)
        assert turns.begun[MAX_BEGUN:] == ["new"]

    asyncio.run(run())


def test_a_busy_connection_does_not_pass_those_that_wait() -> None:
    async def run() -> None:
        turns = Turns()
        turns.enter("a", MAX_BEGUN)
        turns.enter("a", name="waits")
        turns.slots[0].leave()
        turns.enter("a", answered=1, name="again")
        turns.slots[1].leave()
        for _ in range(3):
            await asyncio.sleep(0)
        assert turns.begun[MAX_BEGUN:] == ["waits", "again"]

    asyncio.run(run())


def test_a_request_that_takes_long_gives_its_slot_back() -> None:
    async def run() -> None:
        turns = Turns()
        turns.enter("a", MAX_BEGUN + 1)
        assert len(turns.begun) == MAX_BEGUN
        await asyncio.sleep(1.2)
        assert len(turns.begun) == MAX_BEGUN + 1

    asyncio.run(run())


def test_only_a_valid_key_makes_a_caller_of_its_own() -> None:
    async def run() -> None:
        intake = Intake(asyncio.get_running_loop())
        unknown = intake.key_of(b"Bearer lw_1_made_up")
        assert unknown == intake.key_of(b"Bearer lw_2_made_up") != intake.key_of(b"")
        intake.note_key(b"Bearer lw_1_x", "1")
        intake.note_key(b"Bearer  lw_1_x", "1")
        assert intake.key_of(b"Bearer lw_1_x") == intake.key_of(b"Bearer  lw_1_x") == "1"
        intake.note_key(b"Bearer lw_1_x" + b" " * 10_000, "1")
        for number in range(2_000):
            intake.note_key(f"{number}".encode(), f"{number}")
        assert intake.key_of(b"Bearer lw_1_x") == unknown  # only so many are remembered
        assert intake.key_of(b"1999") == "1999"

    asyncio.run(run())
