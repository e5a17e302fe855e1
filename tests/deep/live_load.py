"""Load for the live channel, from processes of their own.

`python -m deep.live_load watch ADDRESS SUBSCRIBERS PROMPTS` opens that many sockets over so many
prompts, says `ready`, and at the end of its input prints what each got. `… select ADDRESS RATE
SECONDS PROMPTS`, with a body as input, sends selections for the prompts in turn at a steady rate,
whether or not those before were answered, and prints how long each took.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

_CONNECTIONS = 16
_AT_ONCE = 20
_SETTLE_S = 3.0


def prompt(number: int) -> str:
    return f"prompt-{number}"


@dataclass(slots=True)
class Seen:
    """What one subscriber got."""

    prompt: str
    selections: int = 0
    missed: int = 0
    disorder: int = 0
    last_id: int = 0
    closed: str = ""
    delays_ms: list[float] = field(default_factory=list)


async def watch(address: str, subscribers: int, prompts: int) -> None:
    seen = [Seen(prompt(number % prompts)) for number in range(subscribers)]
    opening = asyncio.Semaphore(_AT_ONCE)
    ready = asyncio.Semaphore(0)

    async def follow(one: Seen) -> None:
        url = f"{address}/v1/live?tenant_id=demo&prompt_id={one.prompt}"
        async with opening:
            socket = await connect(url, proxy=None, compression=None, max_queue=256)
            assert json.loads(await socket.recv(decode=False))["type"] == "ready"
        ready.release()
        try:
            await take(socket, one)
        except ConnectionClosed as end:
            one.closed = str(end)
        finally:
            await socket.close()

    async def take(socket: ClientConnection, one: Seen) -> None:
        while True:
            frame = await socket.recv(decode=False)
            # Parsing all of it would cost more than the service has to do for it.
            head = frame[:64]
            number = int(head[6 : head.index(b",")])
            one.selections += b'"selection"' in head
            one.missed += b'"missed"' in head
            one.disorder += number <= one.last_id
            one.last_id = number

    tasks = [asyncio.create_task(follow(one)) for one in seen]
    for _ in tasks:
        await ready.acquire()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await asyncio.sleep(_SETTLE_S)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps([{name: getattr(one, name) for name in Seen.__slots__} for one in seen]))


async def select(address: str, rate: float, seconds: float, prompts: int) -> None:
    host, _, port = address.rpartition("/")[2].partition(":")
    body = sys.stdin.buffer.read()
    connections: asyncio.Queue[Any] = asyncio.Queue()  # by turns: none of them is idle for long
    for _ in range(_CONNECTIONS):
        connections.put_nowait(await asyncio.open_connection(host, int(port)))
    took: list[float] = []

    async def ask(number: int) -> None:
        query = f"tenant_id=demo&prompt_id={prompt(number % prompts)}"
        head = (
            f"POST /v1/context/select?{query} HTTP/1.1\r\n"
            f"Host: {host}:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        begin = perf_counter()
        reader, writer = await connections.get()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        took.append((perf_counter() - begin) * 1000)
        connections.put_nowait((reader, writer))

    late: list[float] = []  # how long this process, too, had to wait for its turn
    begin, asking = perf_counter(), []
    for number in range(int(rate * seconds)):
        await asyncio.sleep(begin + number / rate - perf_counter())
        late.append((perf_counter() - begin - number / rate) * 1000)
        asking.append(asyncio.create_task(ask(number)))
    await asyncio.gather(*asking)
    spent = perf_counter() - begin
    print(json.dumps({"took_ms": took, "late_ms": late, "seconds": spent}))


if __name__ == "__main__":
    kind, given, *numbers = sys.argv[1:]
    if kind == "watch":
        asyncio.run(watch(given, *map(int, numbers)))
    else:
        rate, length, spread = numbers
        asyncio.run(select(given, float(rate), float(length), int(spread)))
