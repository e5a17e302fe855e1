"""The tables of times, each with a check of the timed answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import get_args

import numpy as np
from numpy import float64
from numpy.typing import NDArray

from bench import naive
from bench.generate import Case, RawEntry, Writer
from bench.inputs import BenchInput, book_of, naive_entries, request_of, uids
from bench.plan import Plan
from bench.report import Section, Target, kib, ms
from bench.timing import Candidate, Sample, measure
from lorewell import (
    BookCreate,
    CompiledBook,
    SelectRequest,
    SnapshotLimits,
    VectorScores,
    compile_book,
    select,
)
from lorewell.model.parse import parse_json, parse_model
from lorewell.model.select import Explain
from lorewell.retrieval.bm25 import Ranking
from lorewell.retrieval.fusion import LIST_LENGTH

EXPLAIN: tuple[Explain, ...] = get_args(Explain)
NAIVE = {"fair": "naive, fair", "sillytavern_shape": "naive, as a chat app does it"}
NO_LIMITS = SnapshotLimits(entries=1_000_000, content_chars=1_000_000_000)
RATIO = 200
FULL_RATIO = 10
COMPILE_MS = 1_000
HYBRID_RATIO = 3
RANK_MS = 2


def answer(books: Sequence[CompiledBook], request: SelectRequest) -> Callable[[], bytes]:
    """Return the call to time: a selection and its encoding."""
    return lambda: select(books, request, limits=NO_LIMITS).to_json()


def selected(case: Case, books: Sequence[CompiledBook], explain: Explain = "selected") -> set[int]:
    """Return the uids that the engine selects."""
    return uids(select(books, request_of(case, books, explain=explain), limits=NO_LIMITS))


def naive_call(case: Case, shape: str) -> Callable[[], list[int]]:
    """Return the naive scan of a case, as a call without arguments."""
    entries, chat = naive_entries(case), list(case.chat)
    return lambda: naive.activate(entries, chat, case.depth, shape)


def compiling(large: BenchInput, plan: Plan) -> Section:
    """Measure the preparation of a book before its first selection."""
    book = book_of(large.case.entries)
    document = book.model_dump_json(exclude_defaults=True).encode()
    unranked = iter([compile_book(book) for _ in range(plan.compile_rounds)])
    samples = measure(
        {
            "read": Candidate(lambda: parse_model(BookCreate, parse_json(document))),
            "compile": Candidate(lambda: compile_book(book)),
            "lexical_index": Candidate(lambda: next(unranked).lexical()),
        },
        plan.compile_rounds,
    )
    entries = len(book.entries)
    keys = sum(len(entry.keys) for entry in book.entries)
    took = samples["compile"].median_ms
    labels = {
        "read": f"read from {len(document) / 1e6:.1f} MB of JSON",
        "compile": "compile",
        "lexical_index": "index for ranking (only for hybrid, at first use)",
    }
    return Section(
        name="compile",
        title=f"Once per book: {entries:,} entries, {keys:,} keys",
        header=("", "best ms", "median ms"),
        rows=[row(labels[name], sample) for name, sample in samples.items()],
        figures={name: sample.figures() for name, sample in samples.items()},
        targets=(
            Target(
                name=f"compile {entries:,} entries",
                found=f"{took:,.0f} ms",
                wanted=f"< {COMPILE_MS:,} ms",
                met=took < COMPILE_MS,
            ),
        ),
    )


def selecting(book: BenchInput, plan: Plan) -> Section:
    """Measure selections from a book, and the naive scans of the same book."""
    case, size = book.case, len(book.case.entries)
    app_rounds = plan.app_rounds[plan.sizes.index(size)]
    calls = {m: answer(book.books, request_of(case, book.books, explain=m)) for m in EXPLAIN}
    found: dict[str, set[int]] = {mode: selected(case, book.books, mode) for mode in EXPLAIN}

    def scan(shape: str, rounds: int | None) -> Candidate:
        call = naive_call(case, shape)
        return Candidate(lambda: found.update({shape: set(call())}), rounds=rounds)

    candidates: dict[str, Candidate] = {
        mode: Candidate(call, plan.repeats) for mode, call in calls.items()
    }
    candidates["fair"] = scan("fair", None)
    if app_rounds:
        candidates["sillytavern_shape"] = scan("sillytavern_shape", app_rounds)
    samples = measure(candidates, plan.rounds)
    right = {name: uids == case.expected for name, uids in found.items()}
    sizes = {mode: len(call()) for mode, call in calls.items()}
    ratios: dict[str, dict[str, float]] = {mode: _ratios(samples, mode) for mode in EXPLAIN}
    full = samples["full"].median_ms / samples["selected"].median_ms
    targets = _targets(ratios["selected"]["fair"], full) if size == plan.sizes[1] else ()
    best = samples["fair"].best_ms / samples["selected"].best_ms
    source = "given" if book.given else "generated"
    return Section(
        name=f"select_{size}",
        title=f"One turn: {size:,} entries ({source}), {len(case.expected)} of them activated",
        header=("", "best ms", "median ms", "vs fair", "vs app", "JSON KiB", "as expected"),
        rows=[
            [
                *row(NAIVE.get(name) or f"lorewell, explain {name}", sample),
                *(_times(ratios.get(name, {}).get(shape)) for shape in NAIVE),
                kib(sizes[name]) if name in sizes else "",
                "yes" if right[name] else "NO",
            ]
            for name, sample in samples.items()
        ],
        note=(
            f"Full takes {full:.1f} x as long as selected. By best times, selected is"
            f" {best:,.0f} x as fast as the fair scan."
        ),
        figures={
            **{name: sample.figures() for name, sample in samples.items()},
            "given": book.given,
            "expected": len(case.expected),
            "right": right,
            "ratios": ratios,
            "json_bytes": sizes,
            "full_over_selected": full,
        },
        wrong=tuple(f"{size:,} entries, {name}" for name, fine in right.items() if not fine),
        targets=targets,
    )


def _ratios(samples: Mapping[str, Sample], mode: str) -> dict[str, float]:
    own = samples[mode].median_ms
    return {shape: samples[shape].median_ms / own for shape in NAIVE if shape in samples}


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:,.0f}x"


def _targets(ratio: float, full: float) -> tuple[Target, ...]:
    return (
        Target(
            name="time of the fair scan / explain selected",
            found=f"{ratio:,.0f} x",
            wanted=f">= {RATIO} x",
            met=ratio >= RATIO,
        ),
        Target(
            name="time of explain full / explain selected",
            found=f"{full:.1f} x",
            wanted=f"< {FULL_RATIO} x",
            met=full < FULL_RATIO,
        ),
    )


def ranking(large: BenchInput, plan: Plan) -> Section:
    """Measure selections that rank, and the single steps around a selection."""
    case, books = large.case, large.books
    rules, hybrid = (request_of(case, books, strategy=s) for s in ("rules", "hybrid"))
    near = VectorScores(
        similarities={(book.book_id, book.revision): _similarities(book) for book in books},
        embedding_version="bench",
    )
    full = select(books, request_of(case, books, explain="full"))
    document = rules.model_dump_json().encode()
    names = [[entry.full_id for entry in book.entries] for book in books]

    def best_hundred() -> list[tuple[int, int]]:
        found = Ranking([book.lexical() for book in books], hybrid.query)
        return list(islice(found.best_first(lambda book, place: names[book][place]), LIST_LENGTH))

    calls: dict[str, tuple[str, Callable[[], object]]] = {
        "rules": ("rules", answer(books, rules)),
        "lexical": ("hybrid, by words only", answer(books, hybrid)),
        "hybrid": (
            f"hybrid, with {len(case.entries):,} similarities",
            lambda: select(books, hybrid, vectors=near).to_json(),
        ),
        "bm25": ("find the best hundred by words", best_hundred),
        "request": (
            "read the request from JSON",
            lambda: parse_model(SelectRequest, parse_json(document)),
        ),
        "encode_full": ("encode a full answer", full.to_json),
    }
    calls["lexical"][1]()  # builds the index
    timed = {name: Candidate(call, plan.repeats) for name, (_, call) in calls.items()}
    samples = measure(timed, plan.rounds)
    rule, ranked = samples["rules"], ("lexical", "hybrid")
    ratios = {name: samples[name].median_ms / rule.median_ms for name in ranked}
    best = {name: samples[name].best_ms / rule.best_ms for name in ranked}
    query = samples["bm25"].median_ms
    return Section(
        name="strategies",
        title=f"Strategies and single steps ({len(case.entries):,} entries, explain selected)",
        header=("", "best ms", "median ms"),
        rows=[row(calls[name][0], sample) for name, sample in samples.items()],
        note=(
            f"By best times, hybrid takes {best['lexical']:.1f} x of rules by words only and"
            f" {best['hybrid']:.1f} x with similarities."
        ),
        figures={
            **{name: sample.figures() for name, sample in samples.items()},
            "hybrid_over_rules": ratios,
        },
        targets=(
            *(
                Target(
                    name=f"time of {calls[name][0]} / rules",
                    found=f"{ratio:.1f} x",
                    wanted=f"< {HYBRID_RATIO} x",
                    met=ratio < HYBRID_RATIO,
                )
                for name, ratio in ratios.items()
            ),
            Target(
                name=f"rank {len(case.entries):,} entries by words",
                found=f"{query:.1f} ms",
                wanted=f"< {RANK_MS} ms",
                met=query < RANK_MS,
            ),
        ),
    )


def _similarities(book: CompiledBook) -> NDArray[float64]:
    """Return a similarity for each entry, distributed like those of an embedding model."""
    return np.random.default_rng(11).normal(0.3, 0.1, book.entry_count)


def regexes(small: BenchInput, plan: Plan) -> Section:
    """Measure regex keys that have to be tried and don't match."""
    case = small.case
    writer = Writer(7, taken={key for entry in case.entries for key in entry.key})
    first = 1 + max(entry.uid for entry in case.entries)
    added = []
    for uid in range(first, first + plan.regex_keys):
        words = "|".join(writer.key(chinese=False, words=1) for _ in range(2))
        key = rf"/\b(?:{words})s?\b/i"
        added.append(RawEntry(uid=uid, key=(key,), content="A page of the log.", order=100))
    heavy = [compile_book(book_of([*case.entries, *added]))]
    calls = {
        "without": answer(small.books, request_of(case, small.books)),
        "with": answer(heavy, request_of(case, heavy)),
    }
    calls["with"]()  # starts the regex process
    timed = {name: Candidate(call, plan.repeats) for name, call in calls.items()}
    samples = measure(timed, plan.rounds)
    response = select(heavy, request_of(case, heavy, explain="full"))
    problems = Counter(d.reason for d in response.decisions if d.reason.startswith("regex_"))
    problem_counts = ", ".join(
        f"{number} x {reason}" for reason, number in sorted(problems.items())
    )
    return Section(
        name="regex",
        title=f"Regex keys, one per entry, added to {len(case.entries):,} other entries",
        header=("explain selected", "best ms", "median ms"),
        rows=[
            row("no regex key", samples["without"]),
            row(f"{plan.regex_keys} regex keys, none matches", samples["with"]),
        ],
        note=f"Keys that could not be evaluated: {problem_counts}." if problem_counts else "",
        figures={
            **{name: sample.figures() for name, sample in samples.items()},
            "keys": plan.regex_keys,
            "problems": problems,
        },
        wrong=() if uids(response) == case.expected else ("regex keys",),
    )


def row(label: str, sample: Sample) -> list[str]:
    """Return the first three cells of a row: label, best, median."""
    return [label, ms(sample.best_ms), ms(sample.median_ms)]
