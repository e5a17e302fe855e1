"""What a process holds of bodies and answers is bounded, and a tenant has its share of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from starlette.types import Message

from lorewell.errors import OverloadedError
from lorewell.http.held import TENANT, HeldBytes, Hold
from service import Api, code, serving

PATH = "/v1/tokens/count"
PART = b'{"texts": ["' + b"x" * 60_000
MIB = 1024 * 1024


def held(most_bytes: int = 100) -> HeldBytes:
    return HeldBytes("Bodies", "max_bodies_bytes", most_bytes)


def hold_of(tenant_id: str, of: HeldBytes) -> Hold:
    return Hold(of, {"state": {TENANT: tenant_id}})


def test_one_alone_is_taken_whatever_its_size() -> None:
    every = held()
    hold = hold_of("a", every)
    for _ in range(3):
        hold.add(100)
    assert every.total == 300
    hold.release()
    hold.release()
    assert every.total == 0


def test_a_tenant_holds_half_and_all_hold_no_more_than_the_limit() -> None:
    every = held()
    hold_of("a", every).add(40)
    with pytest.raises(OverloadedError, match=r"of this tenant .* half of LOREWELL_MAX_BODIES"):
        hold_of("a", every).add(20)
    hold_of("a", every).add(10)
    hold_of("b", every).add(50)
    with pytest.raises(OverloadedError, match="100 bytes, the limit: LOREWELL_MAX_BODIES"):
        hold_of("c", every).add(1)
    assert every.total == 100


@pytest.fixture(name="small")
def small_fixture(database: str) -> Iterator[Api]:
    with serving(database_url=database, max_bodies_bytes=200_000) as api:
        yield api


def test_bodies_on_their_way_take_no_more_than_their_share(small: Api) -> None:
    async def work() -> None:
        may_end = asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield PART
            await may_end.wait()
            yield b'"]}'

        headers = {"Content-Type": "application/json"}
        slow = asyncio.create_task(small.ask("POST", PATH, content=slowly(), headers=headers))
        await asyncio.sleep(0.05)
        whole = PART + b'"]}'
        refused = await small.ask("POST", PATH, content=whole, headers=headers)
        assert (refused.status_code, code(refused)) == (503, "overloaded")
        assert "half of LOREWELL_MAX_BODIES_BYTES" in refused.json()["detail"]
        other = await small.ask("POST", PATH, content=whole, headers=headers, tenant="other")
        assert other.status_code == 200
        may_end.set()
        assert (await slow).status_code == 200
        again = await small.ask("POST", PATH, content=whole, headers=headers)
        assert again.status_code == 200

    small.run(work())


def scope_of(path: str, tenant_id: str) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": f"tenant_id={tenant_id}".encode(),
        "headers": [(b"host", b"localhost")],
        "http_version": "1.1",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


class Reader:
    """A client that takes pieces of an answer only if it may."""

    def __init__(self, *, may_read: bool) -> None:
        self.may_read = asyncio.Event()
        if may_read:
            self.may_read.set()
        self.status, self.body, self.most = 0, b"", 0

    async def receive(self) -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        await self.may_read.wait()
        self.body += message["body"]
        self.most = max(self.most, len(message["body"]))


def test_answers_that_nobody_reads_take_no_more_than_their_share(database: str) -> None:
    entries = [{"id": f"e{n}", "content": f"{n} " * 2_000} for n in range(50)]
    with serving(database_url=database, max_unread_bytes=MIB) as api:
        paths = {
            tenant: f"/v1/books/{api.create({'name': 'B', 'entries': entries}, tenant=tenant)}"
            for tenant in ("demo", "other")
        }

        async def ask(tenant: str, reader: Reader) -> None:
            await api.app(scope_of(paths[tenant], tenant), reader.receive, reader.send)

        async def work() -> None:
            slow = Reader(may_read=False)
            waiting = asyncio.create_task(ask("demo", slow))
            await asyncio.sleep(0.1)
            refused, other = Reader(may_read=True), Reader(may_read=True)
            await ask("demo", refused)
            assert (refused.status, json.loads(refused.body)["code"]) == (503, "overloaded")
            assert "half of LOREWELL_MAX_UNREAD_BYTES" in json.loads(refused.body)["detail"]
            await ask("other", other)
            assert (other.status, other.body[-1:]) == (200, b"}")
            assert other.most <= 65_536
            slow.may_read.set()
            await waiting
            assert (slow.status, slow.body[-1:]) == (200, b"}")
            again = Reader(may_read=True)
            await ask("demo", again)
            assert again.status == 200

        api.run(work())
