"""Each attack of `dev.py deep siege` in a small form: it fails nothing, and stops nobody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from process import Server
from siege.attack import Attack, Tally, start
from siege.catalogue import ATTACKS
from siege.innocent import measure
from siege.service import MIB, Neighbours, People, Watched, besieged, neighbours, settle, stop
from siege.verdict import GRACE_S, MOST_P99_MS, faults_of, late

CALLERS = 2
LEAD_S = 0.1
SECONDS = 0.3
MOST_SECONDS = 1.0  # an attack of many payloads need not send all of them
MOST_GROWTH_BYTES = 500 * MIB
MOST_MS = 10 * MOST_P99_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A service under attack."""

    server: Server
    people: People
    watched: Watched
    around: Neighbours


@pytest.fixture(name="place", scope="module")
def place_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("siege")
    url = f"sqlite:///{folder}/lorewell.db"
    people = settle(url)
    with (
        neighbours() as around,
        besieged(folder / "log", database_url=url, **around.settings) as (server, watched),
    ):
        yield Place(server=server, people=people, watched=watched, around=around)
        assert stop(watched, 2 * GRACE_S) < 2 * GRACE_S


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_attack_stops_nobody(attack: Attack, place: Place) -> None:
    place.around.be_for(attack)
    site = place.people.hostile(place.server.port, attack.short)
    tally = Tally()
    before = place.watched.forget()
    blows = attack.make(site)
    until = time.monotonic() + MOST_SECONDS
    end = start(site, blows, tally, CALLERS)
    try:
        time.sleep(LEAD_S)
        innocent = place.people.innocent(site.port)
        seen = measure(innocent, place.people.book_id, SECONDS, patience_s=MOST_MS / 1_000)
        while tally.got.total() < len(blows) and time.monotonic() < until:
            time.sleep(LEAD_S / 5)
    finally:
        end()
    assert place.server.is_running
    assert list(faults_of(seen, tally.members(), place.server.log())) == []
    assert late(seen, MOST_MS) == []
    assert place.watched.most_bytes - before < MOST_GROWTH_BYTES
