"""Stores spoken to without `await`, and SQL for PostgreSQL from outside of any store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from lorewell.app.ports import Store, Transaction

Result = TypeVar("Result")


class Harness:
    """A store and the event loop that it lives in."""

    def __init__(self, store: Store, runner: asyncio.Runner) -> None:
        self.store = store
        self._runner = runner

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(coroutine)

    def read(self, work: Callable[[Transaction], Result]) -> Result:
        return self.run(self.store.read(work))

    def write(self, work: Callable[[Transaction], Result]) -> Result:
        return self.run(self.store.write(work))

    def all(self, *coroutines: Coroutine[Any, Any, Result]) -> list[Result | BaseException]:
        """Run them at the same time; return results and errors in their order."""

        async def together() -> list[Result | BaseException]:
            return await asyncio.gather(*coroutines, return_exceptions=True)

        return self.run(together())


@contextmanager
def opened(store: Store) -> Iterator[Harness]:
    """Yield a store with its tables made; close it in the end."""
    with asyncio.Runner() as runner:
        harness = Harness(store, runner)
        try:
            harness.run(store.migrate())
            yield harness
        finally:
            harness.run(store.close())


def execute(url: str, *statements: str) -> None:
    import asyncpg  # noqa: PLC0415  the same

    async def run() -> None:
        connection: Any = await asyncpg.connect(url)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())
