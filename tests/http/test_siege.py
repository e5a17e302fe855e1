"""Each attack of `dev.py deep siege` in a small form: it fails nothing, and stops nobody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from chat_upstream import ChatUpstream, chat_upstream
from process import Server
from siege.attack import TENANT, Attack, Tally, start
from siege.catalogue import ATTACKS
from siege.innocent import measure
from siege.service import MIB, People, Watched, besieged, settle, stop

CALLERS = 2
SECONDS = 0.5
MOST_MS = 10 * 250.0
MOST_BYTES = 1_000 * MIB
MOST_REFUSAL_BYTES = 262_144
GRACE_S = 10.0
FAILURES = ("500", "502", "503 storage_unavailable", "504", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    server: Server
    people: People
    watched: Watched
    upstream: ChatUpstream


@pytest.fixture(name="place", scope="module")
def place_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("siege")
    url = f"sqlite:///{folder}/lorewell.db"
    people = settle(url)
    with chat_upstream() as upstream:
        given = {"replica_tenant": TENANT, "gateway_upstream_url": upstream.url, "live": "true"}
        with besieged(folder / "log", database_url=url, **given) as (server, watched):
            yield Place(server=server, people=people, watched=watched, upstream=upstream)
            assert stop(watched, GRACE_S * 2) < GRACE_S * 2
            assert "Traceback" not in server.log()


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_attack_stops_nobody(attack: Attack, place: Place) -> None:
    port, tally = place.server.port, Tally()
    place.upstream.behave()
    if attack.hangs:
        place.upstream.hang(60)
    blows = attack.make(place.people.hostile(port, attack.short))
    end = start(place.people.hostile(port, attack.short), blows, tally, CALLERS)
    try:
        time.sleep(0.1)
        seen = measure(place.people.innocent(port), place.people.book_id, SECONDS)
    finally:
        end()
    assert place.server.is_running
    assert {kind: each.wrong for kind, each in seen.items() if each.wrong} == {}
    assert {
        kind: max(each.took_ms) for kind, each in seen.items() if max(each.took_ms) > MOST_MS
    } == {}
    assert place.watched.most_bytes < MOST_BYTES
    assert [what for what in tally.got if what.startswith(FAILURES)] == []
    refused = {what: size for what, size in tally.largest.items() if what[0] in "45"}
    assert max(refused.values(), default=0) < MOST_REFUSAL_BYTES
