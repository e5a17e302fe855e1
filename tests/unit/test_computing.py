"""The compute pool: what it bounds, who goes first, and how work ends."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from lorewell.app.computing import slices
from lorewell.app.computing.places import PlaceLimits
from lorewell.app.computing.pool import ComputeLimits, ComputeTurn, Computing, caller_leaves
from lorewell.engine.steps import Steps
from lorewell.errors import OverloadedError, TooExpensiveError

LIMITS = ComputeLimits(queue_seconds=30, turn_seconds=30, import_seconds=30)
SOON = 0.05


def computing(
    use: Callable[[Computing], Coroutine[Any, Any, None]], limits: ComputeLimits = LIMITS
) -> None:
    """Use a pool; in the end no place is taken and no thread is left."""
    before = threading.active_count()

    async def go() -> None:
        pool = Computing(limits)
        try:
            async with asyncio.timeout(60):
                await use(pool)
                while pool.running or pool.waiting:  # noqa: ASYNC110  nothing says when
                    await asyncio.sleep(0.001)
        finally:
            pool.close()

    asyncio.run(go())
    deadline = time.monotonic() + 60
    while threading.active_count() > before:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def places(**given: int) -> ComputeLimits:
    return replace(LIMITS, threads=1, places=PlaceLimits(**given))


class Busy:
    """Work that computes until it is stopped, and records that it ran."""

    def __init__(self) -> None:
        self.begun, self.ended, self.may_end = (threading.Event() for _ in range(3))

    def run(self, turn: ComputeTurn) -> None:
        self.begun.set()
        try:
            while not self.may_end.is_set():
                turn.steps.spend("test", 1_000)
                time.sleep(0.0005)
        finally:
            self.ended.set()

    async def in_turn(self, pool: Computing, tenant_id: str = "a") -> None:
        async with pool.turn(tenant_id) as turn:
            await turn.run(lambda: self.run(turn))

    async def start(self, pool: Computing, tenant_id: str = "a") -> asyncio.Task[None]:
        task = asyncio.create_task(self.in_turn(pool, tenant_id))
        await asyncio.to_thread(self.begun.wait, 60)
        return task


def test_work_runs_in_a_thread_with_the_context_and_its_errors_pass() -> None:
    word = contextvars.ContextVar("word", default="none")

    async def use(pool: Computing) -> None:
        word.set("set")
        found = await pool.run("a", lambda: (word.get(), threading.current_thread()))
        assert found[0] == "set"
        assert found[1] is not threading.main_thread()
        with pytest.raises(LookupError):
            await pool.run("a", lambda: {}["missing"])
        assert await pool.finish("a", lambda: 1) == 1

    computing(use)


def test_a_turn_counts_the_steps_of_all_its_work() -> None:
    async def use(pool: Computing) -> None:
        async with pool.turn("a") as turn:
            await turn.run(lambda: turn.steps.spend("one", 600))
            with pytest.raises(TooExpensiveError) as caught:
                await turn.run(lambda: turn.steps.spend("two", 600))
        assert caught.value.details["by"] == {"one": 600, "two": 401}
        assert caught.value.details["setting"] == "LOREWELL_MAX_STEPS"

    computing(use, replace(LIMITS, max_steps=1_000))


def test_work_that_takes_too_long_is_ended_and_says_which_setting_limits_it() -> None:
    busy = Busy()

    async def use(pool: Computing) -> None:
        with pytest.raises(OverloadedError, match="LOREWELL_TURN_SECONDS"):
            await busy.in_turn(pool)
        await asyncio.to_thread(busy.ended.wait, 60)
        assert pool.counts.refused == 1

    computing(use, replace(LIMITS, turn_seconds=SOON, max_steps=10**9))


def test_work_that_never_pauses_is_answered_in_time_all_the_same() -> None:
    may_end = threading.Event()

    async def use(pool: Computing) -> None:
        with pytest.raises(OverloadedError, match="LOREWELL_IMPORT_SECONDS"):
            await pool.run("a", lambda: may_end.wait(60))
        assert pool.running == 1  # its thread still has the place
        may_end.set()

    computing(use, replace(LIMITS, import_seconds=SOON))


def test_time_spent_waiting_for_others_is_none_of_the_turn() -> None:
    async def use(pool: Computing) -> None:
        busy = [Busy() for _ in range(4)]
        tasks = [await each.start(pool, f"tenant-{number}") for number, each in enumerate(busy)]
        done, _ = await asyncio.wait(tasks, timeout=0.3)
        assert not done  # each computed for a quarter of that
        for each in busy:
            each.may_end.set()
        await asyncio.gather(*tasks)

    computing(use, replace(LIMITS, threads=1, turn_seconds=0.2, max_steps=10**9))


def test_a_tenant_that_comes_later_gets_the_next_slice() -> None:
    async def use(pool: Computing) -> None:
        busy = [Busy() for _ in range(4)]
        tasks = [await each.start(pool) for each in busy]
        for _ in range(5):
            assert await pool.run("b", lambda: "short") == "short"
        assert not any(each.ended.is_set() for each in busy)
        for each in busy:
            each.may_end.set()
        await asyncio.gather(*tasks)

    computing(use, replace(LIMITS, threads=1, max_steps=10**9))


def test_work_that_never_pauses_keeps_no_other_from_beginning() -> None:
    may_end = threading.Event()

    async def use(pool: Computing) -> None:
        stuck = asyncio.create_task(pool.run("a", lambda: may_end.wait(60)))
        await asyncio.sleep(0)
        assert await pool.run("b", lambda: "short") == "short"
        may_end.set()
        await stuck

    computing(use, replace(LIMITS, threads=1))


def test_work_that_never_pauses_delays_its_own_tenant_for_some_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "GIVE_UP_SECONDS", 1.0)
    may_end = threading.Event()

    async def use(pool: Computing) -> None:
        stuck = asyncio.create_task(pool.run("a", lambda: may_end.wait(60)))
        await asyncio.sleep(0)
        behind = asyncio.create_task(pool.run("a", lambda: "short"))
        for _ in range(3):
            assert await pool.run("b", lambda: "short") == "short"
        assert not behind.done()
        assert await behind == "short"
        assert not stuck.done()
        may_end.set()
        await stuck

    computing(use, replace(LIMITS, threads=1))


def test_one_tenant_takes_so_many_places_and_no_more() -> None:
    async def use(pool: Computing) -> None:
        busy = [Busy() for _ in range(3)]
        tasks = [await each.start(pool) for each in busy[:2]]
        tasks.append(asyncio.create_task(busy[2].in_turn(pool)))
        await asyncio.sleep(SOON)
        assert (pool.running, pool.waiting) == (2, 1)
        assert await pool.run("b", lambda: "short") == "short"
        assert not busy[2].begun.is_set()
        for each in busy:
            each.may_end.set()
        await asyncio.gather(*tasks)

    computing(use, replace(places(requests=8, tenant_requests=2), max_steps=10**9))


def test_each_tenant_gets_one_of_the_last_half_of_the_places() -> None:
    async def use(pool: Computing) -> None:
        busy = [Busy() for _ in range(6)]
        names = ("a", "a", "b", "c", "c", "d")
        pairs = zip(busy, names, strict=True)
        tasks = [asyncio.create_task(each.in_turn(pool, name)) for each, name in pairs]
        await asyncio.sleep(SOON)
        assert (pool.running, pool.waiting) == (4, 2)  # two of a, one of b, one of c
        for each in busy:
            each.may_end.set()
        await asyncio.gather(*tasks)

    computing(use, replace(places(requests=4, tenant_requests=2), max_steps=10**9))


def test_a_full_queue_is_refused_and_the_longest_one_makes_room() -> None:
    async def use(pool: Computing) -> None:
        busy = Busy()
        first = await busy.start(pool)
        queued = [asyncio.create_task(pool.run("a", lambda: "a")) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError, match="LOREWELL_COMPUTE_TENANT_QUEUE"):
            await pool.run("a", lambda: "a")
        held = Busy()
        second = await held.start(pool, "b")
        late = asyncio.create_task(pool.run("b", lambda: "b"))  # there is no room but of the others
        done, _ = await asyncio.wait(queued, return_when=asyncio.FIRST_COMPLETED)
        assert done == {queued[-1]}
        with pytest.raises(OverloadedError, match="LOREWELL_COMPUTE_QUEUE"):
            await queued[-1]
        busy.may_end.set()
        held.may_end.set()
        assert await asyncio.gather(*queued[:2], late) == ["a", "a", "b"]
        await asyncio.gather(first, second)

    limits = places(requests=4, tenant_requests=1, queue=3, tenant_queue=3)
    computing(use, replace(limits, max_steps=10**9))


def test_nobody_waits_for_ever() -> None:
    async def use(pool: Computing) -> None:
        busy = Busy()
        first = await busy.start(pool)
        with pytest.raises(OverloadedError, match="LOREWELL_QUEUE_SECONDS"):
            await pool.run("a", lambda: None)
        assert pool.waiting == 0
        busy.may_end.set()
        await first

    limits = places(requests=4, tenant_requests=1)
    computing(use, replace(limits, queue_seconds=SOON, max_steps=10**9))


@pytest.mark.parametrize("how", ["cancelled", "left"])
def test_work_of_a_caller_who_leaves_is_given_up(how: str) -> None:
    async def use(pool: Computing) -> None:
        leaves = asyncio.Event()

        async def left() -> NoReturn:
            await leaves.wait()
            raise ConnectionError

        if how == "left":
            caller_leaves.set(left)
        busy, ran = Busy(), threading.Event()
        running = await busy.start(pool)
        queued = asyncio.create_task(pool.run("a", ran.set))
        await asyncio.sleep(SOON)
        if how == "left":
            leaves.set()
        else:
            running.cancel()
            queued.cancel()
        results = await asyncio.gather(running, queued, return_exceptions=True)
        kind = ConnectionError if how == "left" else asyncio.CancelledError
        assert [type(each) for each in results] == [kind, kind]
        await asyncio.to_thread(busy.ended.wait, 60)
        assert not ran.is_set()
        assert pool.counts.left == (2 if how == "left" else 0)

    computing(use, replace(places(requests=4, tenant_requests=1), max_steps=10**9))


def test_shared_work_goes_on_when_the_turn_that_began_it_ends() -> None:
    may_end, ran = threading.Event(), []

    def make(_steps: Steps) -> str:
        may_end.wait(60)
        ran.append(1)
        return "made"

    async def use(pool: Computing) -> None:
        async with pool.turn("a") as turn:
            task = turn.begin(make)
            with pytest.raises(OverloadedError, match="LOREWELL_QUEUE_SECONDS"):
                await turn.wait_for(task)
        assert pool.running == 1  # the place is taken until it ends
        may_end.set()
        async with pool.turn("b") as turn:
            assert await turn.wait_for(task) == "made"
        assert ran == [1]

    computing(use, replace(LIMITS, queue_seconds=SOON))


def test_a_pool_that_stops_refuses_what_waits_and_ends_what_runs() -> None:
    async def use(pool: Computing) -> None:
        busy, waiting = Busy(), Busy()
        running = await busy.start(pool)
        queued = asyncio.create_task(waiting.in_turn(pool))
        await asyncio.sleep(SOON)
        pool.refuse()
        for refused in (queued, pool.run("a", lambda: None)):
            with pytest.raises(OverloadedError, match="stopping"):
                await refused
        assert await pool.run("b", lambda: "the rest of a request") == "the rest of a request"
        assert not running.done()
        pool.end()
        with pytest.raises(OverloadedError, match="stopping"):
            await running
        await asyncio.to_thread(busy.ended.wait, 60)
        for refused in (pool.finish("b", lambda: None), pool.run("b", lambda: None)):
            with pytest.raises(OverloadedError, match="stopping"):
                await refused

    computing(use, replace(places(requests=4, tenant_requests=1), max_steps=10**9))


def test_thousands_of_pieces_lose_nothing() -> None:
    async def use(pool: Computing) -> None:
        async def work(number: int) -> int:
            async with pool.turn(f"tenant-{number % 7}") as turn:
                first = await turn.run(lambda: number)
                return await turn.run(lambda: first + 1)

        for _ in range(5):
            results = await asyncio.gather(*(work(number) for number in range(200)))
            assert results == list(range(1, 201))

    computing(use, replace(LIMITS, places=PlaceLimits(tenant_queue=200)))
