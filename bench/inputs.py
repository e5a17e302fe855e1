"""The inputs of a run, given or generated, and their conversion for the engine."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.generate import Case, RawEntry, generate
from lorewell import (
    BookCreate,
    CompiledBook,
    Entry,
    Message,
    SelectRequest,
    SelectResponse,
    compile_book,
)
from lorewell.model.select import Explain, Strategy

FOLDER = "LOREWELL_BENCH_INPUTS"
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "bench"


@dataclass(frozen=True, slots=True)
class BenchInput:
    """A case, whether it comes from given files, and its compiled book."""

    case: Case
    given: bool
    books: tuple[CompiledBook, ...]


def load_input(size: int) -> BenchInput:
    """Return the case of a size with its compiled book."""
    case, given = load_case(size)
    return BenchInput(case, given, tuple(compile_case(case)))


def load_case(size: int) -> tuple[Case, bool]:
    """Return the case of a size, and whether it comes from given files."""
    folder = Path(os.environ.get(FOLDER) or BESIDE)
    book, chat = folder / f"book_{size}.json", folder / f"chat_{size}.json"
    if book.is_file() and chat.is_file():
        return _read(book, chat), True
    return generate(size), False


def _read(book_path: Path, chat_path: Path) -> Case:
    book = json.loads(book_path.read_text(encoding="utf-8"))
    chat = json.loads(chat_path.read_text(encoding="utf-8"))
    return Case(
        entries=tuple(
            RawEntry(
                uid=entry["uid"],
                key=tuple(entry["key"]),
                content=entry["content"],
                order=entry["order"],
            )
            for entry in book["entries"].values()
        ),
        chat=tuple(chat["chat"]),
        depth=chat["settings"]["world_info_depth"],
        expected=frozenset(chat["expected"]["activated"]),
    )


def naive_entries(case: Case) -> list[dict[str, Any]]:
    """Return the entries in the form of the naive reference."""
    return [
        {"uid": entry.uid, "key": list(entry.key), "content": entry.content, "order": entry.order}
        for entry in case.entries
    ]


def book_of(entries: Sequence[RawEntry], name: str = "Bench") -> BookCreate:
    """Return the entries as a book with whole-word keys and recursion."""
    return BookCreate(
        name=name,
        entries=tuple(
            Entry(
                id=str(entry.uid),
                content=entry.content,
                keys=entry.key,
                order=entry.order,
                match_whole_words=True,
                exclude_recursion=False,
                prevent_recursion=False,
            )
            for entry in entries
        ),
    )


def split_case(case: Case, books: int) -> list[BookCreate]:
    """Return the case's entries distributed over a number of books."""
    return [book_of(case.entries[number::books], f"Bench {number}") for number in range(books)]


def compile_case(case: Case, books: int = 1) -> list[CompiledBook]:
    """Return the case's entries in a number of compiled books."""
    return [compile_book(book) for book in split_case(case, books)]


def request_of(
    case: Case,
    books: Sequence[CompiledBook],
    *,
    explain: Explain = "selected",
    strategy: Strategy = "rules",
) -> SelectRequest:
    """Return the chat as a request with the newest message as query, and ample room."""
    newest, *older = case.chat
    return SelectRequest(
        books=tuple(book.ref for book in books),
        query=newest,
        history=tuple(Message(role="user", content=text) for text in reversed(older)),
        strategy=strategy,
        scan_depth=case.depth,
        token_budget=32_000,
        max_entries=200,
        max_recursion_rounds=5,
        explain=explain,
    )


def uids(response: SelectResponse) -> set[int]:
    """Return the uids of the selected entries."""
    return {int(block.entry_id) for block in response.blocks}
