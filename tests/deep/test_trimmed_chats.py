"""Thousands of random chats of a trimming client, and a hundred thousand conversations."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from lorewell.app.access import Caller
from lorewell.app.ports import Transaction
from lorewell.app.rows import PairsChange, StateMark
from lorewell.app.services import Services
from lorewell.app.sillytavern.places import (
    TurnChat,
    UnnamedScope,
    find_beginning,
    hash_chat,
    pairs_of,
)
from lorewell.bootstrap import build_services
from lorewell.host.alignment import SentLine, align, extend, hash_lines, start_over
from lorewell.host.known_lines import KnownLines
from lorewell.model import ActivateRequest
from lorewell.settings import load_settings
from service import PATIENT
from trimming import bind_world, play, play_at_gateway

CHATS = 5_000  # on each database, a third of them at each door
TURNS = 12
CONVERSATIONS = 100_000
BATCH = 20  # a transaction, which must end in time on a busy machine
MOST_MS = 2  # for the place of 500 messages
TIMES = 50
SCOPE = UnnamedScope(prompt_id="p", key_id=None, user=None, old_id="gateway-old")


@asynccontextmanager
async def served(url: str) -> AsyncIterator[Services]:
    upstream = "http://127.0.0.1:9/v1"
    settings = load_settings(database_url=url, gateway_upstream_url=upstream, **PATIENT)
    services = build_services(settings)
    await services.store.migrate()
    try:
        yield services
    finally:
        await services.store.close()


@pytest.mark.parametrize("door", ["activate", "named", "unnamed"])
def test_a_trimming_client_gets_what_one_gets_that_sends_everything(
    empty_url: str, door: str, report: Callable[[str], None]
) -> None:
    async def go() -> Counter[str]:
        reports: Counter[str] = Counter()
        caller = Caller("default", frozenset({"read", "write"}))
        async with served(empty_url) as services:
            await bind_world(services)
            for seed in range(1_000_000, 1_000_000 + CHATS // 3 + 1):
                if door == "activate":
                    reports += await play(services, seed, TURNS)
                else:
                    is_named = door == "named"
                    reports += await play_at_gateway(
                        services, caller, seed, TURNS, is_named=is_named
                    )
        return reports

    reports = asyncio.run(go())
    report(f"{reports.total():,} turns: {dict(reports)}")
    assert reports["kept"] > reports.total() // 2


def test_place_of_500_messages(report: Callable[[str], None]) -> None:
    key = b"secret"
    chat = [SentLine("", f"message {at}", bool(at % 2)) for at in range(500)]
    lines = hash_lines(key, chat)
    body = extend(KnownLines(), start_over(lines), lines).dump()
    known = KnownLines.parse(body)
    sent = hash_lines(key, [*chat[1:], SentLine("", "new", is_reply=False)])

    def milliseconds(work: Callable[[], object]) -> float:
        seconds = []
        for _ in range(TIMES):
            begin = time.thread_time()
            work()
            seconds.append(time.thread_time() - begin)
        return min(seconds) * 1000

    figures = {
        "hash": milliseconds(lambda: hash_lines(key, chat)),
        "read": milliseconds(lambda: KnownLines.parse(body)),
        "align": milliseconds(lambda: align(known, sent)),
    }
    report(", ".join(f"{name} {each:.2f} ms" for name, each in figures.items()))
    assert figures["align"] < MOST_MS


def said(number: int) -> list[str]:
    """Return the lines of a conversation; all begin with the same ones."""
    return ["Hi", "Hello", f"I am {number}.", f"Well, {number}.", "So?"]


def spoken(texts: Sequence[str]) -> list[SentLine]:
    return [SentLine("", each, bool(at % 2)) for at, each in enumerate(texts)]


async def hashed(services: Services, texts: Sequence[str]) -> TurnChat:
    request = activation(texts)
    chat = await hash_chat(services, "t", request, spoken=spoken(texts), scope=SCOPE)
    assert chat is not None
    return chat


def activation(texts: Sequence[str]) -> ActivateRequest:
    document = {"chat": [{"content": each} for each in texts], "context_tokens": 100}
    return ActivateRequest.model_validate(document)


async def fill(services: Services, numbers: range) -> None:
    """Store conversations, as their turns would."""
    for begin in numbers[::BATCH]:
        batch = range(begin, min(begin + BATCH, numbers.stop))
        chats = [await hashed(services, said(number)) for number in batch]

        def store(tx: Transaction, batch: range = batch, chats: Sequence[TurnChat] = chats) -> None:
            for number, chat in zip(batch, chats, strict=True):
                name, place = f"~{number:040x}", chat.begun
                known = extend(KnownLines(), place, chat.lines)
                mark = StateMark(
                    messages_hash=place.end.hex(),
                    message_count=place.length,
                    kept_at=datetime.now(UTC),
                )
                tx.keep_state("t", name, mark, b"{}", most=9)
                tx.put_lines("t", name, known.dump())
                tx.put_pairs("t", name, PairsChange(sorted(pairs_of(chat.scope, known)), []))

        await services.store.write(store)


async def find(services: Services, texts: Sequence[str]) -> float:
    """Return the least milliseconds for finding the beginning of a turn."""
    request, chat = activation(texts), await hashed(services, texts)
    least = 1e9
    for _ in range(TIMES):
        begin = time.perf_counter()
        found = await services.store.read(lambda tx: find_beginning(tx, "t", request, chat))
        least = min(least, (time.perf_counter() - begin) * 1000)
    assert found is not None
    assert found.report.state == "kept"
    return least


def test_many_conversations_stay_fast(empty_url: str, report: Callable[[str], None]) -> None:
    async def go() -> None:
        async with served(empty_url) as services:
            await fill(services, range(100))
            few = await find(services, [*said(50), "Then?", "Now."])
            await fill(services, range(100, CONVERSATIONS))
            many = await find(services, [*said(CONVERSATIONS // 2), "Then?", "Now."])
            trimmed = await find(services, [*said(CONVERSATIONS // 3)[2:], "Then?", "Now."])
            report(
                f"beginning of a turn: {few:.2f} ms among 100 conversations, {many:.2f} ms among "
                f"{CONVERSATIONS:,}, {trimmed:.2f} ms if trimmed"
            )
            assert many < 2 * few + MOST_MS

    asyncio.run(go())
