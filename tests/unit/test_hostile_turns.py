"""Small requests that ask for much: they are cheap, or refused with figures, in every policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from growth import MOST, growth
from lorewell import BookCreate, SelectRequest, Steps, compile_book, select
from lorewell.engine.replica import activate as activate_replica, compile_world as compile_replica
from lorewell.engine.sillytavern.activate import activate
from lorewell.errors import TooExpensiveError
from lorewell.insight.replay import replay
from lorewell.model.conversation import ReplayRequest
from lorewell.model.parse import parse_model
from lorewell.model.replica import ReplicaRequest
from replica_books import conditional, constant, entry, keyed, trigger
from world_info import library, request

Turn = Callable[[Steps], Any]
FEW = 300_000  # steps
LOW = 200_000  # a tenth of the usual limit
NEAR = 60_000  # steps between two calls of `watch`, some tens of milliseconds


def native(
    entries: Iterable[Mapping[str, Any]], history: Sequence[str] = (), **members: object
) -> Turn:
    book = compile_book(
        parse_model(
            BookCreate, {"name": "B", "entries": [{"content": "C", **each} for each in entries]}
        )
    )
    document = {
        "books": [{"book_id": book.book_id}],
        "query": "b",
        "history": [{"role": "user", "content": text} for text in history],
        "scan_depth": 100,
        "explain": "none",
        **members,
    }
    asked = parse_model(SelectRequest, document)
    return lambda steps: select([book], asked, steps=steps)


def sillytavern(
    entries: Sequence[Mapping[str, Any]], chat: Sequence[str] = ("a",), **members: object
) -> Turn:
    books = library({str(uid): each for uid, each in enumerate(entries)})
    given = {"explain": "none", "context_tokens": 10**8, **members}
    given["settings"] = {
        "world_info_depth": 1_000,
        "world_info_budget": 100,
        **dict(members.get("settings", {})),  # type: ignore[call-overload]  # one is a mapping
    }
    asked = request(list(chat), **given)
    return lambda steps: activate(books, asked, steps=steps)


def replica(
    entries: Sequence[Mapping[str, Any]],
    mes: str = "b",
    history: Sequence[str] = (),
    table: Mapping[str, object] | None = None,
    **members: object,
) -> Turn:
    world = compile_replica({"name": "B", "entries": list(entries)}, book_id="b")
    document = {
        "worldBookData": {"globalBooks": [{"id": "b"}]},
        "mes": mes,
        "chatHistory": list(history),
        "dynamicTableData": {"currentValues": table or {}},
        "explain": "none",
        **members,
    }
    asked = parse_model(ReplicaRequest, document)
    return lambda steps: activate_replica({"b": world}, asked, steps=steps)


NESTED = ["a" * length for length in range(1, 201)]
PASSING: Mapping[str, Callable[[], Turn]] = {
    "native: nested keys": lambda: native(({"keys": [key]} for key in NESTED), ["a" * 16_000] * 10),
    "native: nested keys with line breaks": lambda: native(
        ({"keys": [f"{key}\n{key}"]} for key in NESTED), ["a" * 4_000] * 10
    ),
    "native: keys of one prefix": lambda: native(
        ({"keys": [f"lamp{n}"]} for n in range(5_000)), ["lamp1 " * 2_600] * 20
    ),
    "native: secondary keys of many entries": lambda: native(
        {"keys": ["b"], "selective": True, "logic": "and_all", "secondary_keys": [f"k{n}", "b"]}
        for n in range(2_000)
    ),
    "native: many regexes on a short text": lambda: native(
        {"keys": [f"/zz{n}/"]} for n in range(2_000)
    ),
    "native: requires of requires": lambda: native(
        {"id": f"e{n:04}", "constant": True, "requires": [f"e{k:04}" for k in range(n - n % 8, n)]}
        for n in range(2_000)
    ),
    "native: one conflict": lambda: native(
        {"id": f"e{n}", "constant": True, "conflict_key": "k"} for n in range(5_000)
    ),
    "sillytavern: nested keys": lambda: sillytavern(
        [{"key": [key], "matchWholeWords": False} for key in NESTED], ["a" * 100_000] * 3
    ),
    "sillytavern: one group": lambda: sillytavern(
        [{"key": ["a"], "group": "g"} for _ in range(2_000)], explain="full"
    ),
    "sillytavern: a group of two for each": lambda: sillytavern(
        [{"key": ["a"], "group": f"g{n // 2}"} for n in range(2_000)]
    ),
    "sillytavern: depths": lambda: sillytavern(
        [{"constant": True, "position": 4, "depth": n, "content": "C"} for n in range(2_000)]
    ),
    "sillytavern: forced, again and again": lambda: sillytavern(
        [{"key": ["x"], "uid": 0} for _ in range(3_000)], forced=[{"ref": "b.0"}] * 1_000
    ),
    "sillytavern: hits behind a growing character": lambda: sillytavern(
        [{"key": [f"k{n}"], "matchWholeWords": False} for n in range(500)],
        ["İ" + "x" * 100_000 + "".join(f"k{n} " for n in range(500))],
        explain="full",
    ),
    "sillytavern: line breaks and no macro": lambda: sillytavern(
        [{"constant": True, "content": "{{" + "\n" * 60_000} for _ in range(30)]
    ),
    "sillytavern: macros that never end": lambda: sillytavern(
        [{"constant": True, "content": "{{//{{reverse:" * 4_000} for _ in range(30)]
    ),
    "replica: nested keys": lambda: replica(
        [keyed(f"e{len(key)}", key) for key in NESTED], history=["a" * 100_000] * 3
    ),
    "replica: long keys": lambda: replica(
        [keyed(f"e{n}", "a" * 5_000 + str(n)) for n in range(20)], "a" * 1_000_000
    ),
    "replica: one conflict": lambda: replica(
        [constant(f"e{n}", group=["g"]) for n in range(3_000)]
    ),
}
REFUSED: Mapping[str, tuple[str, Callable[[], Turn]]] = {
    "native: keys that never stand alone": (
        "keys",
        lambda: native(
            ({"keys": [key], "match_whole_words": True} for key in NESTED), ["a" * 16_000] * 2
        ),
    ),
    "native: whole words by depth": (
        "keys",
        lambda: native(
            (
                {"keys": ["a" * (n // 20 + 1)], "match_whole_words": True, "scan_depth": n % 20}
                for n in range(400)
            ),
            ["a" * 4_000] * 20,
        ),
    ),
    "native: marks before a border": (
        "keys",
        lambda: native(
            [{"keys": ["\u0301"], "match_whole_words": True}], ["a" + "\u0301" * 15_000] * 3
        ),
    ),
    "native: a long list in the state": (
        "conditions",
        lambda: native(
            ({"constant": True, "conditions_text": ["tb.a 包括 x"]} for _ in range(200)),
            state={"a": list(range(40_000))},
        ),
    ),
    "native: many regexes on long texts": (
        "regex",
        lambda: native(({"keys": [f"/zz{n}/"]} for n in range(1_000)), ["m" * 16_000] * 100),
    ),
    "sillytavern: a longer text for each regex and depth": (
        "regex",
        lambda: sillytavern(
            [{"key": [f"/zz{n}/"]} for n in range(500)],
            ["m" * 1_200] * 900,
            settings={"world_info_depth": 1, "world_info_min_activations": 10},
        ),
    ),
    "sillytavern: macros in keys by depth": (
        "scan",
        lambda: sillytavern(
            [{"key": [f"{{{{user}}}}{n}"], "scanDepth": n} for n in range(1, 900)],
            ["m" * 1_200] * 900,
        ),
    ),
    "sillytavern: keys that are awake in every loop": (
        "scan",
        lambda: sillytavern(
            [{"key": [f"k{n} "], "content": f"x k{n + 1} "} for n in range(300)]
            + [{"key": ["k0"], "keysecondary": ["z"], "selective": True}] * 300,
            ["k0 "],
        ),
    ),
    "sillytavern: events with long names": (
        "ledger",
        lambda: sillytavern(
            [{"key": ["a"], "group": "g", "uid": "u" * 60_000, "groupOverride": True}]
            + [{"key": ["a"], "group": "g"}] * 2_000,
            explain="full",
        ),
    ),
    "sillytavern: groups in groups": (
        "groups",
        lambda: sillytavern(
            [{"key": ["a"], "group": ",".join(map(str, range(400)))} for _ in range(200)]
        ),
    ),
    "sillytavern: a text that is counted anew": (
        "tokens",
        lambda: sillytavern(
            [{"constant": True, "ignoreBudget": True, "content": "/" + "x" * 9_000}] * 300
        ),
    ),
    "replica: a long list in the table": (
        "conditions",
        lambda: replica(
            [conditional(f"e{n}", *["tb.a 包括 x"] * 9) for n in range(60)],
            table={"a": list(range(10_000))},
        ),
    ),
    "replica: a growing text": ("matching", lambda: replica([keyed("e", "a")], "İ" * 210_000)),
    "replica: a long name": (
        "output",
        lambda: replica(
            [constant("u" * 200_000, group=["g"], groupWeight=999)]
            + [constant(f"e{n}", group=["g"]) for n in range(600)]
        ),
    ),
}


def distances(turn: Turn, limit: int) -> list[int]:
    """Return the steps between two calls of `watch`; a refusal ends the turn."""
    seen = [0]
    steps = Steps(limit, watch=lambda: seen.append(steps.spent))
    try:
        turn(steps)
    except TooExpensiveError:
        return [after - before for before, after in pairwise(seen)]
    return [after - before for before, after in pairwise([*seen, steps.spent])]


@pytest.mark.parametrize("name", PASSING)
def test_what_can_be_cheap_is(name: str) -> None:
    steps = Steps()
    turn = PASSING[name]()
    turn(steps)
    assert steps.spent < FEW
    assert max(distances(turn, 10 * LOW)) < NEAR


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_expensive_is_refused(name: str) -> None:
    kind, make = REFUSED[name]
    turn = make()
    with pytest.raises(TooExpensiveError) as caught:
        turn(Steps(LOW))
    by = caught.value.details["by"]
    assert isinstance(by, dict)
    assert max(by, key=lambda each: by[each]) == kind
    assert max(distances(turn, LOW)) < NEAR


def chain(length: int) -> Turn:
    entries = [{"key": [f"k{n} "], "content": f"x k{n + 1} "} for n in range(length)]
    return sillytavern(entries, ["k0 "])


def test_a_chain_of_recursion_takes_as_long_as_it_is() -> None:
    assert len(chain(1_500)(Steps()).activated) == 1_500
    assert growth(chain, lambda turn: turn(Steps()), 200) < MOST


def test_rounds_of_recursion_join_no_text_again() -> None:
    def rounds(size: int) -> Turn:
        filler = "water " * size
        entries = [
            {"keys": [f"k{n}x"], "content": f"{filler} k{n + 1}x", "exclude_recursion": False}
            for n in range(6)
        ]
        entries = [{**each, "prevent_recursion": False} for each in entries]
        return native(entries, ["k0x"], max_recursion_rounds=5, token_budget=32_000)

    steps = Steps()
    assert len(rounds(1_000)(steps).blocks) == 6
    assert growth(rounds, lambda turn: turn(Steps()), 1_000) < MOST


def test_min_activations_search_each_message_once() -> None:
    def deepening(size: int) -> Turn:
        settings = {"world_info_depth": 1, "world_info_min_activations": 10}
        chat = ["water " * 100] * size
        return sillytavern([{"key": [f"k{n}"]} for n in range(500)], chat, settings=settings)

    assert growth(deepening, lambda turn: turn(Steps()), 60) < MOST


def test_a_replay_of_many_turns_is_bounded_as_a_whole() -> None:
    books = library({str(n): {"key": ["lamp"], "content": "oil"} for n in range(100)})
    lines = [{"name": "A", "content": "lamp"}] * 2_000
    asked = parse_model(ReplayRequest, {"chat": lines, "context_tokens": 1_000})
    turns = []
    with pytest.raises(TooExpensiveError) as caught:
        turns.extend(replay(books, asked, steps=Steps(50_000)))
    by = caught.value.details["by"]
    assert isinstance(by, dict)
    assert by["turns"] > 500


@pytest.mark.parametrize("names", ["g", "g,h"])
def test_members_of_a_group_are_removed_in_one_pass(names: str) -> None:
    def groups(size: int) -> Turn:
        return sillytavern([{"key": ["a"], "group": names} for _ in range(size)])

    assert growth(groups, lambda turn: turn(Steps()), 700) < MOST


def test_rag_entries_without_vectors_cost_little() -> None:
    steps = Steps()
    replica([entry(f"e{n}", trigger(rag={})) for n in range(500)])(steps)
    assert steps.spent < FEW
