"""The extent of a run: full, or quick with every figure measured at least once."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The sizes and numbers of rounds of a run.

    Attributes:
        name: of the run, in the report.
        sizes: entries of the two books that are compared with the naive reference.
        rounds: rounds in which every candidate is timed.
        repeats: calls per round of a candidate that takes a few milliseconds or less.
        naive_rounds: rounds of the naive scan in the growth table.
        app_rounds: rounds of the naive scan in the shape of a chat app, which takes seconds, for
            each of `sizes`.
        compile_rounds: how often the larger book is compiled, and the files are imported.
        grown, grown_books: entries of the largest book of the growth table, and the number of
            books that hold them.
        regex_keys: number of regex keys added to a book.
        profiled: selections under the profiler.
        imported_bytes: size of the imported files.
        vector_books, vector_entries: number of books with vectors, and of vectors in each.
        asks_corpus: whether the questions about books of the corpus are asked, too.
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
