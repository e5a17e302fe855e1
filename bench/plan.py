"""How much a run measures: all of it, or as little as shows every figure once."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The sizes and numbers of rounds of a run.

    Attributes:
        name: what the report calls it.
        sizes: entries of the two books that are compared with the naive reference.
        rounds: turns of every candidate.
        repeats: calls in a turn of what takes a few milliseconds or less.
        naive_rounds: turns of the naive scan where the book grows.
        app_rounds: turns of the naive scan in the shape of a chat app, which takes seconds; of the
            larger book none in a quick run.
        compile_rounds: how often the larger book is compiled.
        grown: entries of the large book of the growth table, and how many books hold them.
        regex_keys: how many regex keys a book is given.
        profiled: selections under the profiler.
        imported_bytes: the size of the files that are imported, as often as a book is compiled.
        vector_books, vector_entries: how many books have vectors, and how many each.
        asks_corpus: whether questions are asked of the books of the corpus, too.
    """

    name: str
    sizes: tuple[int, int] = (1_000, 5_000)
    rounds: int
    repeats: int
    naive_rounds: int
    app_rounds: tuple[int, int]
    compile_rounds: int
    grown: int
    grown_books: int = 4
    regex_keys: int
    profiled: int
    imported_bytes: int
    vector_books: int
    vector_entries: int = 5_000
    asks_corpus: bool


FULL = Plan(
    name="full",
    rounds=11,
    repeats=20,
    naive_rounds=3,
    app_rounds=(3, 2),
    compile_rounds=7,
    grown=20_000,
    regex_keys=300,
    profiled=300,
    imported_bytes=5_000_000,
    vector_books=20,
    asks_corpus=True,
)
QUICK = Plan(
    name="quick",
    rounds=2,
    repeats=5,
    naive_rounds=1,
    app_rounds=(1, 0),
    compile_rounds=1,
    grown=6_000,
    regex_keys=300,
    profiled=20,
    imported_bytes=500_000,
    vector_books=2,
    vector_entries=500,
    asks_corpus=False,
)
TINY = replace(
    QUICK,
    name="tiny",
    sizes=(300, 1_500),
    grown=1_800,
    regex_keys=60,
    profiled=5,
    imported_bytes=100_000,
    vector_entries=100,
)
"""For the tests: every figure is made, and few of them mean anything."""
