"""Measures recall at the defaults: that it is quiet, and that it still finds what is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.plan import Plan
from bench.quality import LANGUAGES, QUESTIONS, Vectors, embed, path_of, readable
from bench.report import Section, Target
from lorewell import CompiledBook, SelectRequest, VectorScores, compile_book, select
from lorewell.embedders.local import LocalEmbedder
from lorewell.embedders.options import EmbedderOptions
from lorewell.formats import open_book
from lorewell.retrieval.chunks import chunks_of
from lorewell.retrieval.evidence import LIMIT, QuietScale, vector_scale
from lorewell.retrieval.quiet import QUIET_TEXTS

SPLITS: Final = ("tune", "validate")
PARTS: Final = {**LANGUAGES, "cross": "across languages"}
FIRST: Final = (1, 5, 10)
MOST_QUIET: Final = 0.10
LEAST_KEPT: Final = 0.80
MOST_ENTRIES: Final = 6
_ROOMY: Final = {"strategy": "hybrid", "token_budget": 32_000, "max_entries": 200}

Embed = Callable[[Sequence[str]], Vectors]


@dataclass(frozen=True, slots=True)
class Asked:
    """A turn: the book, its text, and the id of the entry that it needs; None if it needs none."""

    part: str
    split: str
    book: str
    text: str
    entry: str | None


@dataclass(frozen=True, slots=True)
class Got:
    """What a turn got.

    Attributes:
        entries: the number of entries recalled by `auto`.
        found: whether the needed entry is among them.
        places: its place in the order by evidence, by words, by vectors and without a floor, from
            1; 0 if it has none.
    """

    asked: Asked
    entries: int
    found: bool
    places: Mapping[str, int]


def turns(names: Callable[[str], bool]) -> Iterator[Asked]:
    """Yield all turns about books that can be read."""
    of_language: dict[str, dict[str, set[str]]] = {}
    for part in PARTS:
        for pair in _lines(part):
            if names(pair["book"]):
                books = of_language.setdefault(part, {}).setdefault(pair["book"], set())
                books.add(pair["split"])
                yield Asked(part, pair["split"], pair["book"], pair["question"], pair["entry"])
    for turn in _lines("quiet"):
        known = of_language.get(turn["language"], {})
        own = [turn["book"]] if turn["book"] else [b for b in known if turn["split"] in known[b]]
        for book in own:
            if names(book):
                yield Asked(turn["language"], turn["split"], book, turn["question"], None)


def _lines(name: str) -> list[dict[str, str]]:
    lines = (QUESTIONS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@dataclass(frozen=True, slots=True)
class MeasuredBook:
    """A compiled book with the vectors of its chunks, and what quiet texts reach in it."""

    compiled: CompiledBook
    owners: NDArray[np.int64]
    vectors: Vectors
    scales: Mapping[str, QuietScale]

    @classmethod
    def of(cls, name: str, embedded: Embed) -> MeasuredBook:
        """Return the book of a turn."""
        book = open_book(path_of(name)).book
        # Some books enable their entries by script.
        enabled = [entry.model_copy(update={"enabled": True}) for entry in book.entries]
        compiled = compile_book(book.model_copy(update={"entries": tuple(enabled)}))
        owners, texts = [], []
        for entry in compiled.entries:
            for _, text in chunks_of(entry.spec.title, entry.spec.content):
                owners.append(entry.index)
                texts.append(text)
        vectors = embedded(texts)
        scales = {
            language: vector_scale((embedded(quiet) @ vectors.T).max(axis=1).tolist())
            for language, quiet in QUIET_TEXTS.items()
        }
        return cls(compiled, np.array(owners), vectors, scales)

    def scores(self, query: NDArray[np.float32]) -> VectorScores:
        """Return the similarities to a query."""
        best = np.full(self.compiled.entry_count, np.nan)
        np.fmax.at(best, self.owners, (self.vectors @ query).astype(np.float64))
        name = (self.compiled.book_id, self.compiled.revision)
        return VectorScores(similarities={name: best}, scales={name: self.scales})


def played(asked: Sequence[Asked], embedded: Embed) -> list[Got]:
    """Play the turns through the policy."""
    book_of = cache(lambda name: MeasuredBook.of(name, embedded))
    vectors = embedded([turn.text for turn in asked])
    return [
        _play(turn, book_of(turn.book), vector) for turn, vector in zip(asked, vectors, strict=True)
    ]


def _play(turn: Asked, book: MeasuredBook, vector: NDArray[np.float32]) -> Got:
    scores = book.scores(vector)
    base = {**_ROOMY, "books": [book.compiled.ref], "query": turn.text}

    request = SelectRequest.model_validate({**base, "recall_floor": "auto"})
    decisions = select([book.compiled], request, vectors=scores).decisions
    recalled = {each.entry_id for each in decisions if each.hybrid_score is not None}
    if turn.entry is None:
        return Got(turn, len(recalled), found=False, places={})
    facts = {each.entry_id: each.facts for each in decisions}
    wanted = facts[turn.entry]
    evidence = [each.evidence for each in facts.values() if each.evidence is not None]
    request = SelectRequest.model_validate({**base, "recall_floor": "off", "recall_limit": 100})
    plain = {
        each.entry_id: each.hybrid_score
        for each in select([book.compiled], request, vectors=scores).decisions
        if each.hybrid_score is not None
    }
    score = plain.get(turn.entry)
    by = {
        "evidence": 0
        if wanted.evidence is None
        else 1 + sum(e > wanted.evidence for e in evidence),
        "words": wanted.lexical_rank or 0,
        "vectors": wanted.vector_rank or 0,
        "off": _place(score, plain.values()),
    }
    return Got(turn, len(recalled), found=turn.entry in recalled, places=by)


def _place(score: float | None, scores: Iterable[float]) -> int:
    return 0 if score is None else 1 + sum(each > score for each in scores)


def figures_of(got: Sequence[Got], part: str, split: str) -> dict[str, float]:
    """Return the figures of a part."""
    here = [each for each in got if (each.asked.part, each.asked.split) == (part, split)]
    needing = [each for each in here if each.asked.entry is not None]
    quiet = [each for each in here if each.asked.entry is None]
    kept = sum(each.found for each in needing)
    without = sum(1 <= each.places["off"] <= FIRST[-1] for each in needing)
    found = {
        f"{way}_{first}": sum(1 <= each.places[way] <= first for each in needing)
        / max(1, len(needing))
        for way in ("evidence", "words", "vectors", "off")
        for first in FIRST
    }
    return {
        "turns": len(needing),
        "quiet_turns": len(quiet),
        "disturbed": sum(each.entries > 0 for each in quiet) / max(1, len(quiet)),
        "kept": kept / max(1, without),
        "entries": sum(each.entries for each in needing) / max(1, len(needing)),
        **found,
    }


def recall(plan: Plan) -> Section:
    """Measure what turns get under `recall_floor: "auto"`."""
    asked = list(turns(lambda book: readable(book, plan)))
    embedder = LocalEmbedder(EmbedderOptions())
    got = played(asked, lambda texts: embed(embedder, texts))
    figures = {
        f"{part}_{split}": figures_of(got, part, split) for split in SPLITS for part in PARTS
    }
    return Section(
        name="recall",
        title=f"Recall by evidence, at most {LIMIT} entries ({len(asked)} turns)",
        header=("", "turns", "found %", "entries", "quiet", "disturbed %"),
        rows=[_row(part, split, figures[f"{part}_{split}"]) for split in SPLITS for part in PARTS],
        figures=figures,
        note="Found: of the answers among the first 10 without a floor. Disturbed: quiet turns"
        " that get an entry.",
        targets=tuple(
            target for part in PARTS for target in _targets(part, figures[f"{part}_validate"])
        ),
    )


def _row(part: str, split: str, found: Mapping[str, float]) -> list[str]:
    quiet = bool(found["quiet_turns"])
    return [
        f"{PARTS[part]}, {split}",
        f"{found['turns']:.0f}",
        f"{100 * found['kept']:.1f}",
        f"{found['entries']:.1f}",
        f"{found['quiet_turns']:.0f}" if quiet else "",
        f"{100 * found['disturbed']:.1f}" if quiet else "",
    ]


def _targets(part: str, found: Mapping[str, float]) -> Iterator[Target]:
    name = PARTS[part]
    if found["quiet_turns"]:
        yield Target(
            name=f"{name}, quiet turns that get an entry",
            found=f"{100 * found['disturbed']:.1f} %",
            wanted=f"<= {100 * MOST_QUIET:.0f} %",
            met=found["disturbed"] <= MOST_QUIET,
        )
    yield Target(
        name=f"{name}, found of what is among the first 10 without a floor",
        found=f"{found['kept']:.2f}",
        wanted=f">= {LEAST_KEPT:.2f}",
        met=found["kept"] >= LEAST_KEPT,
    )
    yield Target(
        name=f"{name}, entries of a turn that needs one",
        found=f"{found['entries']:.1f}",
        wanted=f"<= {MOST_ENTRIES}",
        met=found["entries"] <= MOST_ENTRIES,
    )
    for first in FIRST:
        better = max(found[f"words_{first}"], found[f"vectors_{first}"])
        yield Target(
            name=f"{name}, first {first} by evidence",
            found=f"{100 * found[f'evidence_{first}']:.1f} %",
            wanted=f">= {100 * better:.1f} %, the better of words and vectors",
            met=found[f"evidence_{first}"] >= better,
        )
