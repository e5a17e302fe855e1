"""Regex keys of entries that scan at many depths: the texts are handed over once."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from lorewell import BookCreate, Entry, SelectRequest, compile_book, select
from lorewell.jsregex.process import EngineProcess
from world_info import names, scan

DEPTHS = 300
CHARS = 1_200


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many bytes each search hands over, as they are."""
    sizes: list[int] = []
    ask = EngineProcess.ask

    def watched(self: EngineProcess, job: bytes, **limits: Any) -> Any:
        sizes.append(len(job))
        return ask(self, job, **limits)

    monkeypatch.setattr(EngineProcess, "ask", watched)
    return sizes


def test_native_hands_its_text_over_once(handed_over: list[int]) -> None:
    entries = [
        Entry(id=f"e{depth}", content="C", keys=["/zz/", f"/^m{101 - depth}:/"], scan_depth=depth)
        for depth in range(1, 101)
    ]
    book = compile_book(BookCreate(name="B", entries=tuple(entries)))
    history = [{"role": "user", "content": f"m{i}:" + "😀" * CHARS} for i in range(100)]
    request = SelectRequest.model_validate(
        {"books": [book.ref], "query": "m100:", "history": history}
    )
    decisions = select([book], request).decisions
    # All were activated: `^` is where the text of each depth begins.
    assert {each.reason for each in decisions} == {"keyword", "budget_dropped"}
    assert len(handed_over) == 1
    assert handed_over[0] < 2 * 100 * CHARS * len("😀".encode())


def test_sillytavern_hands_its_text_over_once(handed_over: list[int]) -> None:
    entries = {
        str(uid): {"key": ["/zz/", f"/m{uid}:[a ]+$/"], "scanDepth": uid + 1}
        for uid in range(DEPTHS)
    }
    chat = [f"m{DEPTHS - 1 - i}:" + "a " * (CHARS // 2) for i in range(DEPTHS)]
    tracemalloc.start()
    try:
        found = scan(entries, chat, explain="none")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert set(names(found)) == set(entries)  # `$` is where the text of each depth ends
    assert len(handed_over) == 1
    assert handed_over[0] < 2 * DEPTHS * CHARS
    assert peak_bytes < 20 * DEPTHS * CHARS  # a text for each depth is 150 times as many


def test_sillytavern_texts_beside_the_chat_are_seen_as_ever(handed_over: list[int]) -> None:
    """What an entry sees of other texts follows its messages, in the place of those it skips."""
    source = {"matchPersonaDescription": True}
    entries = {
        "alone": {"key": ["/^\\x01m0\\n\\x01note$/"], "scanDepth": 1},
        "all": {"key": ["/m0\\n\\x01m1\\n\\x01 ?persona\\n\\x01note$/"], "scanDepth": 2, **source},
        "more": {"key": ["/m1\\n\\x01note\\n\\x01\\s*woken\\s*$/"], "scanDepth": 9},
        "none": {"key": ["/^$/"], "scanDepth": 0},
        "waker": {"key": ["m0"], "content": "woken"},
    }
    found = scan(
        entries,
        ["m1", "m0"],
        scan_texts={"persona_description": "persona"},
        authors_note={"value": "note", "scan": True},
        settings={"world_info_recursive": True},
    )
    assert set(names(found)) == set(entries)
    assert len(handed_over) == 3  # what is seen at first, the empty text, what recursion adds
