"""How the time of a turn grows with the book while the hits stay the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bench.generate import Case, fill
from bench.inputs import compile_case, request_of
from bench.plan import Plan
from bench.report import Section, Target, ms
from bench.speed import answer, naive_call, row, selected
from bench.timing import Candidate, Sample, measure

GROWTH_RATIO, GROWTH_MS = 1.5, 0.3


@dataclass(frozen=True, slots=True)
class Shape:
    """A case distributed over a number of books."""

    case: Case
    books: int

    @property
    def label(self) -> str:
        """The label in the report and in the JSON."""
        plural = "s" if self.books > 1 else ""
        return f"{len(self.case.entries):,} entries in {self.books} book{plural}"


def growing(case: Case, plan: Plan) -> Section:
    """Measure turns of the case alone, and with added entries that nothing activates."""
    large = fill(case, plan.grown)
    middle = replace(case, entries=large.entries[: plan.sizes[1]])
    many = plan.grown_books
    shapes = [Shape(case, 1), Shape(case, many), Shape(middle, 1), Shape(large, many)]
    candidates, wrong = {}, []
    for shape in shapes:
        books = compile_case(shape.case, shape.books)
        if selected(shape.case, books) != case.expected:
            wrong.append(shape.label)
        calls = {
            mode: answer(books, request_of(case, books, explain=mode))
            for mode in ("selected", "full")
        }
        candidates[f"{shape.label}, selected"] = Candidate(calls["selected"], plan.repeats)
        candidates[f"{shape.label}, full"] = Candidate(calls["full"])
        scan = naive_call(shape.case, "fair")
        candidates[f"{shape.label}, fair"] = Candidate(scan, rounds=plan.naive_rounds)
    samples = measure(candidates, plan.rounds)
    times = [samples[f"{shape.label}, selected"] for shape in shapes]
    ratio, same_books = (times[-1].median_ms / times[n].median_ms for n in (0, 1))
    more = times[-1].median_ms - times[0].median_ms
    return Section(
        name="growth",
        title=f"Growth with the same {len(case.expected)} hits",
        header=("explain selected", "best ms", "median ms", "ratio", "full, ms", "naive fair, ms"),
        rows=[_row(shape, samples, times[0]) for shape in shapes],
        note=f"In {many} books each: {same_books:.2f} x. Unlabelled times are medians.",
        figures={
            **{name: sample.figures() for name, sample in samples.items()},
            "ratio": ratio,
            "more_ms": more,
            "ratio_in_as_many_books": same_books,
        },
        wrong=tuple(wrong),
        targets=(
            Target(
                name=f"{len(case.entries):,} -> {plan.grown:,} entries, same hits",
                found=f"{ratio:.2f} x, {more:+.3f} ms",
                wanted=f"< {GROWTH_RATIO} x or < {GROWTH_MS} ms more",
                met=ratio < GROWTH_RATIO or more < GROWTH_MS,
            ),
        ),
    )


def _row(shape: Shape, samples: Mapping[str, Sample], first: Sample) -> list[str]:
    sample, full, fair = (
        samples[f"{shape.label}, {what}"] for what in ("selected", "full", "fair")
    )
    times = f"{sample.median_ms / first.median_ms:.2f}x"
    return [*row(shape.label, sample), times, ms(full.median_ms), ms(fair.median_ms)]
