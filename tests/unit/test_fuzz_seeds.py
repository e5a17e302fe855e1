"""The seeds of the file fuzzer, and what its mutators make of them, without the fuzzer itself."""

from __future__ import annotations

from random import Random

import pytest

from deep.fuzzing.invariants import expected
from deep.fuzzing.targets import MAX_BYTES, TARGETS, target_of
from lorewell.formats.registry import READERS

MUTATIONS = 4


def changed(data: bytes, max_size: int) -> bytes:
    """Return bytes with one changed, as the fuzzer's own mutations do in many more ways."""
    at = len(data) // 2
    return (data[:at] + b"\x80" + data[at + 1 :])[:max_size]


def test_every_reader_is_a_target() -> None:
    assert {kind.value for kind in READERS} < TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read_as_what_they_are(name: str) -> None:
    seeds = [*TARGETS[name].seeds()]
    assert seeds
    assert max(map(len, seeds)) <= MAX_BYTES
    for data in seeds:
        read_as = TARGETS[name].check(data)
        assert expected(name) in {None, read_as}
        assert name in {"text", "yaml", target_of(data)}


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_seeds_are_refused_in_words_or_give_whole_books(name: str) -> None:
    target, chance = TARGETS[name], Random(name)
    for data in target.seeds():
        made = [target.mutate(data, MAX_BYTES, chance, changed) for _ in range(MUTATIONS)]
        assert max(map(len, made)) <= MAX_BYTES
        assert any(each != data for each in made)
        for each in made:
            target.check(each, with_exports=False)
