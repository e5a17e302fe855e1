"""Times the policy `sillytavern` on the same books, with the naive scan and SillyTavern itself.

Source: SillyTavern's own times were measured with release 1.18.0 under Node 20, on the given
inputs. They come from another run on another machine, so they are not a target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from json import dumps

from bench.generate import Case, fill
from bench.growth import GROWTH_MS, GROWTH_RATIO, Shape
from bench.inputs import BenchInput, book_of, split_case
from bench.plan import Plan
from bench.report import Section, Target
from bench.speed import EXPLAIN, RATIO, naive_call, row
from bench.timing import Candidate, measure
from lorewell import BookCreate, import_file
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.world import compile_stored
from lorewell.engine.tokens import counter
from lorewell.formats.export import export_book
from lorewell.model.activate import (
    ChatLine,
    MacroEngine,
    SillyTavernRequest,
    SillyTavernSettings,
)
from lorewell.model.macro_values import MacroMessage, MacroValues
from lorewell.model.select import Explain

THEIRS_MS: Mapping[int, str] = {1_000: "146 to 224", 5_000: "1,933", 20_000: "41,799"}
CONTEXT_TOKENS = 400_000  # room for every entry


def imported(case: Case) -> BookCreate:
    """Return the case's entries as a book, exported as world info and imported again."""
    exported = export_book(book_of(case.entries), "st_world")
    return import_file(dumps(exported.document).encode(), name="bench.json").book


def library_of(books: Sequence[BookCreate]) -> Library:
    """Return a library with the books as global ones."""
    return Library(Attached("global", compile_stored(book)) for book in books)


def turn_of(case: Case, *, explain: Explain = "selected") -> SillyTavernRequest:
    """Return the request of the chat."""
    return SillyTavernRequest(
        settings=SillyTavernSettings(
            world_info_depth=case.depth,
            token_counting="plain",  # noqa: S106  no password
        ),
        chat=tuple(ChatLine(content=text) for text in reversed(case.chat)),
        macros=MacroValues(user="Tom", char="Mira"),
        context_tokens=CONTEXT_TOKENS,
        explain=explain,
    )


def answer(case: Case, library: Library, *, explain: Explain) -> Callable[[], bytes]:
    """Return the call to time: a turn and its encoding."""
    turn, tokens = turn_of(case, explain=explain), counter()
    return lambda: activate(library, turn, counter=tokens).to_json()


def activated(case: Case, library: Library, explain: Explain = "selected") -> list[int]:
    """Return the uids that the policy activates, in order."""
    found = activate(library, turn_of(case, explain=explain), counter=counter())
    return [int(str(entry.uid)) for entry in found.activated]


def turns(book: BenchInput, plan: Plan) -> Section:
    """Measure turns and the fair naive scan; list SillyTavern's own times."""
    case, size = book.case, len(book.case.entries)
    world = imported(case)
    library = library_of([world])
    candidates: dict[str, Candidate] = {
        mode: Candidate(answer(case, library, explain=mode), plan.repeats) for mode in EXPLAIN
    }
    candidates["fair"] = Candidate(naive_call(case, "fair"))
    candidates["compile"] = Candidate(lambda: compile_stored(world), rounds=plan.compile_rounds)
    right = {mode: set(activated(case, library, mode)) == case.expected for mode in EXPLAIN}
    samples = measure(candidates, plan.rounds)
    ratios = {mode: samples["fair"].median_ms / samples[mode].median_ms for mode in EXPLAIN}
    best = samples["fair"].best_ms / samples["selected"].best_ms
    median = ratios["selected"]
    labels = {"fair": "naive, fair", "compile": "compile the book, once"}
    return Section(
        name=f"sillytavern_{size}",
        title=f"The policy sillytavern: one turn, {size:,} entries, {len(case.expected)} activated",
        header=("", "best ms", "median ms", "vs fair", "as expected"),
        rows=[
            *(
                [
                    *row(labels.get(name) or f"lorewell, explain {name}", sample),
                    f"{ratios[name]:,.0f}x" if name in ratios else "",
                    ("yes" if right[name] else "NO") if name in right else "",
                ]
                for name, sample in samples.items()
            ),
            ["SillyTavern itself, from another run", "", THEIRS_MS.get(size, "?"), "", ""],
        ],
        note=f"By best times, selected is {best:,.0f} x as fast as the fair scan.",
        figures={
            **{name: sample.figures() for name, sample in samples.items()},
            "right": right,
            "ratios": ratios,
            "best_ratio": best,
        },
        wrong=tuple(f"{size:,} entries, sillytavern, {m}" for m, fine in right.items() if not fine),
        targets=(
            Target(
                name="time of the fair scan / policy sillytavern",
                found=f"{median:,.0f} x",
                wanted=f">= {RATIO} x",
                met=median >= RATIO,
            ),
        )
        if size == plan.sizes[1]
        else (),
    )


def growing(case: Case, plan: Plan) -> Section:
    """Measure turns of the case alone, and with added entries that nothing activates."""
    large = fill(case, plan.grown)
    middle = replace(case, entries=large.entries[: plan.sizes[1]])
    many = plan.grown_books
    shapes = [Shape(case, 1), Shape(case, many), Shape(middle, 1), Shape(large, many)]
    libraries = [library_of(split_case(shape.case, shape.books)) for shape in shapes]
    samples = measure(
        {
            shape.label: Candidate(answer(shape.case, library, explain="selected"), plan.repeats)
            for shape, library in zip(shapes, libraries, strict=True)
        },
        plan.rounds,
    )
    first, same_books, *_, last = (samples[shape.label].median_ms for shape in shapes)
    ratio, more = last / first, last - first
    return Section(
        name="sillytavern_growth",
        title=f"The policy sillytavern: growth with the same {len(case.expected)} hits",
        header=("explain selected", "best ms", "median ms", "ratio"),
        rows=[
            [*row(label, sample), f"{sample.median_ms / first:.2f}x"]
            for label, sample in samples.items()
        ],
        note=f"In {many} books each: {last / same_books:.2f} x. Times are medians.",
        figures={
            **{name: sample.figures() for name, sample in samples.items()},
            "ratio": ratio,
            "more_ms": more,
            "ratio_in_as_many_books": last / same_books,
        },
        wrong=tuple(
            f"sillytavern, {shape.label}"
            for shape, library in zip(shapes, libraries, strict=True)
            if set(activated(shape.case, library)) != case.expected
        ),
        targets=(
            Target(
                name=f"policy sillytavern, {len(case.entries):,} -> {plan.grown:,} entries",
                found=f"{ratio:.2f} x, {more:+.3f} ms",
                wanted=f"< {GROWTH_RATIO} x or < {GROWTH_MS} ms more",
                met=ratio < GROWTH_RATIO or more < GROWTH_MS,
            ),
        ),
    )


# What each content ends with: every kind of macro, so that any of them can be the slow one.
HEAVY = (
    " {{char}} {{ user }}{{// note}} {{random::sun::rain::fog}} {{pick::a::b::c}} {{roll:2d6}}"
    " {{setvar::place::{{char}}}}{{getvar::place}}{{incvar::visits}}{{.seen ||= yes}}"
    " {{if {{.visits > 3}}}}often{{else}}rarely{{/if}} {{reverse::{{lastMessage}}}}"
    " {{description}} {{time}} {{datetimeformat::YYYY-MM-DD}} {{newline::2}}{{trim}}"
)


def macros(book: BenchInput, plan: Plan) -> Section:
    """Measure turns of the book alone, with macros in all contents, and with macros in all keys."""
    case = book.case
    contents = replace(
        case, entries=tuple(replace(e, content=e.content + HEAVY) for e in case.entries)
    )
    keys = replace(
        case, entries=tuple(replace(e, key=(*e.key, "{{getvar::place}}#")) for e in case.entries)
    )
    cases = {"no macros": case, "in contents": contents, "in keys": keys}
    libraries = {name: library_of([imported(each)]) for name, each in cases.items()}
    engines: tuple[MacroEngine, ...] = ("new", "old")
    candidates = {
        f"{name}, {engine}": Candidate(macro_turn(case, libraries[name], engine), plan.repeats)
        for name in cases
        for engine in engines
    }
    samples = measure(candidates, plan.rounds)
    plain = samples["no macros, new"].median_ms
    return Section(
        name="sillytavern_macros",
        title=f"The policy sillytavern: macros, {len(case.entries):,} entries",
        header=("macros, engine", "best ms", "median ms", "ratio"),
        rows=[
            [*row(label, sample), f"{sample.median_ms / plain:.2f}x"]
            for label, sample in samples.items()
        ],
        note=f"{len(case.expected)} contents are expanded; every key with a macro is tested.",
        figures={name: sample.figures() for name, sample in samples.items()},
        wrong=tuple(
            f"sillytavern, macros {name}"
            for name, library in libraries.items()
            if set(activated(case, library)) != case.expected
        ),
    )


def macro_turn(case: Case, library: Library, engine: MacroEngine) -> Callable[[], bytes]:
    """Return the call to time: a turn with all that its macros read."""
    turn, tokens = turn_of(case), counter()
    values = MacroValues(
        user="Tom",
        char="Mira",
        description="{{char}} keeps the lamp.",
        chat_id="bench",
        time="2026-03-09T14:07:09Z",
        messages=(MacroMessage(content="The gate is open.", role="user"),),
    )
    settings = turn.settings.model_copy(update={"macro_engine": engine})
    turn = turn.model_copy(update={"macros": values, "settings": settings})
    return lambda: activate(library, turn, counter=tokens).to_json()
