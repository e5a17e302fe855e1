"""Measures how often a question finds its answer: by words, by vectors, and by both."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.plan import Plan
from bench.report import Section, Target
from lorewell import CompiledBook, compile_book
from lorewell.app.ports import Embedder
from lorewell.embedders.local import LocalEmbedder
from lorewell.embedders.options import EmbedderOptions
from lorewell.formats import open_book
from lorewell.retrieval.bm25 import Ranking
from lorewell.retrieval.chunks import chunks_of
from lorewell.retrieval.fusion import LIST_LENGTH, fuse

QUESTIONS: Final = Path(__file__).resolve().parent / "questions"
CORPUS: Final = "LOREWELL_CORPUS"
BESIDE: Final = Path(__file__).resolve().parents[2] / "shared" / "corpus"
LANGUAGES: Final = {"en": "English", "zh": "Chinese"}
MODES: Final = {"lexical": "by words", "vector": "by vectors", "hybrid": "by both"}
FIRST: Final = 10  # results that a user would look at

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Pair:
    """A question, the book to search, and the id of the entry that answers it.

    Nothing was looked at or chosen by the pairs of the split `validate`.
    """

    language: str
    book: str
    entry: str
    question: str
    split: str = "tune"


@dataclass(frozen=True, slots=True)
class AnswerRanks:
    """The rank of a pair's answer in each mode, from 1; 0 if not among the first 100."""

    pair: Pair
    by_mode: Mapping[str, int]


def pairs_of(language: str) -> list[Pair]:
    """Return the pairs of a language, in the order of their file."""
    lines = (QUESTIONS / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Pair(language=language, **json.loads(line)) for line in lines]


def path_of(book: str) -> Path:
    """Return the file of a pair's book; a file of the corpus may be missing."""
    own = QUESTIONS / book
    return own if own.is_file() else Path(os.environ.get(CORPUS) or BESIDE) / book


def quality(plan: Plan) -> Section:
    """Measure how well each mode finds the answers, for each language."""
    known = [pair for language in LANGUAGES for pair in pairs_of(language)]
    pairs = [pair for pair in known if readable(pair.book, plan)]
    began = time.perf_counter()
    embedder = LocalEmbedder(EmbedderOptions())
    places = [places for book in _books_of(pairs) for places in ranked(book, pairs, embedder)]
    took_s = time.perf_counter() - began
    figures = {language: _figures(places, language) for language in LANGUAGES}
    left = len(known) - len(pairs)
    return Section(
        name="quality",
        title=f"Answers found ({len(pairs)} questions to {len(_books_of(pairs))} books)",
        header=("", "questions", f"among {FIRST} %", "first %", "MRR"),
        rows=[_row(language, mode, figures[language]) for language in figures for mode in MODES],
        figures={**figures, "left_out": left, "seconds": took_s},
        note=f"{took_s:,.0f} s. {_left_out(left)}",
        wrong=tuple(
            f"{places.pair.book} has no entry {places.pair.entry}"
            for places in places
            if not places.by_mode
        ),
        targets=tuple(_target(language, figures[language]) for language in figures),
    )


def ranked(name: str, pairs: Sequence[Pair], embedder: Embedder) -> list[AnswerRanks]:
    """Return the ranks of the answers to one book's questions; empty for missing entries."""
    asked = [pair for pair in pairs if pair.book == name]
    book = compile_book(open_book(path_of(name)).book)
    owners, texts = [], []
    for number, compiled in enumerate(book.entries):
        for _, text in chunks_of(compiled.spec.title, compiled.spec.content):
            owners.append(number)
            texts.append(text)
    near = embed(embedder, [pair.question for pair in asked]) @ embed(embedder, texts).T
    found = []
    for pair, row in zip(asked, near, strict=True):
        lists = {"lexical": by_words(book, pair.question), "vector": by_vectors(book, owners, row)}
        lists["hybrid"] = list(fuse(list(lists.values()), keep=LIST_LENGTH))
        entry = book.by_id.get(pair.entry)
        places = {mode: _place(lists[mode], entry.full_id) for mode in MODES} if entry else {}
        found.append(AnswerRanks(pair, places))
    return found


def by_words(book: CompiledBook, question: str) -> list[str]:
    """Return the full ids of the entries that share words with the question, best first."""
    ranking = Ranking([book.lexical()], question)
    best = ranking.best_first(lambda _, place: book.entries[place].full_id)
    return [book.entries[place].full_id for _, place in best][:LIST_LENGTH]


def by_vectors(book: CompiledBook, owners: Sequence[int], near: Vectors) -> list[str]:
    """Return the full ids of the entries by their nearest chunk, best first, ties by full id.

    Args:
        book: the searched book.
        owners: for each chunk, the index of its entry in the book.
        near: for each chunk, its cosine similarity to the question.
    """
    best: dict[str, float] = {}
    for owner, cosine in zip(owners, near.tolist(), strict=True):
        name = book.entries[owner].full_id
        best[name] = max(cosine, best.get(name, -1.0))
    return sorted(best, key=lambda name: (-best[name], name))[:LIST_LENGTH]


def embed(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return the vectors of the texts, one row of length 1 each."""
    return asyncio.run(embedder.embed_texts(texts))


def readable(book: str, plan: Plan) -> bool:
    """Return whether the plan can read a book."""
    return (QUESTIONS / book).is_file() or (plan.asks_corpus and path_of(book).is_file())


def _books_of(pairs: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(pair.book for pair in pairs))


def _place(names: Sequence[str], wanted: str) -> int:
    return names.index(wanted) + 1 if wanted in names else 0


def _figures(places: Sequence[AnswerRanks], language: str) -> dict[str, dict[str, float]]:
    """Return the figures of each mode, as shares from 0 to 1."""
    asked = [place for place in places if place.pair.language == language]
    return {mode: _shares([place.by_mode.get(mode, 0) for place in asked]) for mode in MODES}


def _shares(places: Sequence[int]) -> dict[str, float]:
    questions = len(places)
    return {
        "questions": questions,
        "recall_10": sum(1 <= place <= FIRST for place in places) / questions,
        "recall_1": places.count(1) / questions,
        "mrr": sum(1 / place for place in places if place) / questions,
    }


def _row(language: str, mode: str, figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    found = figures[mode]
    return [
        f"{LANGUAGES[language]}, {MODES[mode]}",
        f"{found['questions']:.0f}",
        _percent(found["recall_10"]),
        _percent(found["recall_1"]),
        f"{found['mrr']:.3f}",
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _left_out(questions: int) -> str:
    return (
        f"{questions} questions about books of the corpus were skipped; set {CORPUS} to its folder."
        if questions
        else "All questions were asked."
    )


def _target(language: str, figures: Mapping[str, Mapping[str, float]]) -> Target:
    found = figures["hybrid"]["recall_10"]
    better = max(figures[mode]["recall_10"] for mode in ("lexical", "vector"))
    return Target(
        name=f"{LANGUAGES[language]} answers among the first {FIRST}, by both",
        found=f"{_percent(found)} %",
        wanted=f">= {_percent(better)} %, the better of words and vectors",
        met=found >= better,
    )
