"""Hybrid recall: which entries rank for the query (docs/rules/native.md §8.6, §9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.eligibility import Refusal
from lorewell.engine.steps import Steps
from lorewell.errors import Fault, ValidationFailedError
from lorewell.model import SelectRequest
from lorewell.model.decision import Recalled
from lorewell.retrieval.bm25 import Ranking
from lorewell.retrieval.fusion import KEPT, LIST_LENGTH, fuse
from lorewell.retrieval.order import nearest_first

if TYPE_CHECKING:  # `import lorewell` stays cheap: numpy is loaded where a book is first ranked
    from numpy import float64
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorScores:
    """How near the entries are to the query, by the caller's vectors; the engine calls nobody.

    Attributes:
        similarities: by book id and revision, the cosine similarity of each entry in stored order,
            NaN where an entry has no vector. Entries of a book that is not here have none.
        embedding_version: what made the vectors.
        degraded: why vectors can't be used; if anything is here, `similarities` is ignored.
    """

    similarities: Mapping[tuple[str, int], NDArray[float64]] = field(default_factory=dict)
    embedding_version: str | None = None
    degraded: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        similarities: Mapping[str, float],
        books: Iterable[CompiledBook],
        *,
        embedding_version: str | None = None,
    ) -> Self:
        """Return the scores of entries that are named by their full ids.

        Args:
            similarities: cosine similarity by full id; entries that are not here have no vector,
                and ids of no entry of the books are passed over.
            books: the compiled revisions that the entries are in.
            embedding_version: what made the vectors.

        >>> from lorewell import BookCreate, Entry, compile_book
        >>> entries = [Entry(id="lamp", content="A lamp."), Entry(id="sea", content="The sea.")]
        >>> book = compile_book(BookCreate(name="Harbour", entries=entries))
        >>> scores = VectorScores.of({book.entries[1].full_id: 0.8}, [book])
        >>> scores.similarities[book.book_id, 1].tolist()
        [nan, 0.8]
        """
        import numpy as np  # noqa: PLC0415  see above

        found = {}
        for book in books:
            known = (similarities.get(entry.full_id, np.nan) for entry in book.entries)
            found[book.book_id, book.revision] = np.fromiter(known, np.float64, book.entry_count)
        return cls(similarities=found, embedding_version=embedding_version)


_DIGITS = 6  # of a similarity in the ledger
NO_VECTORS = VectorScores(degraded=("vector_disabled",))


class RecallCandidate(NamedTuple):
    """An entry that came up for a list.

    Attributes:
        book: number of its book in the snapshot.
        similarity: how near it is to the query; None if vectors say nothing of it.
        below: it is under the request's floor, so that it took no place.
    """

    book: int
    entry: CompiledEntry
    similarity: float | None
    below: bool


class Ranks(NamedTuple):
    """How an entry ranked, as `Facts` has it; `recall` only says why one is not recalled."""

    lexical_rank: int | None = None
    vector_rank: int | None = None
    similarity: float | None = None
    recall: Recalled | None = None


NO_RANKS = Ranks()


@dataclass(slots=True, kw_only=True)
class Recall:
    """What ranks for the query. All mappings go by full id.

    Attributes:
        lexical, vector: places in the two lists, from 1.
        fused: scores of all that hold a place, best first.
        noted: these entries, and those that the floor kept out of a place.
        limit: how many are recalled at most.
        strict: whether secondary logic must hold of what is recalled.
        kept: scores of those that are recalled, best first; `admit` says which.
        gated: those that secondary logic kept out, and what it failed for.
    """

    lexical: Mapping[str, int] = field(default_factory=dict)
    vector: Mapping[str, int] = field(default_factory=dict)
    fused: Mapping[str, float] = field(default_factory=dict)
    noted: Mapping[str, RecallCandidate] = field(default_factory=dict)
    limit: int = KEPT
    strict: bool = False
    kept: dict[str, float] = field(default_factory=dict)
    gated: dict[str, str] = field(default_factory=dict)

    def looked_at(self, book: int) -> list[int]:
        """Return the indexes of a book's entries that may be recalled."""
        # Any of them may move up if the gate keeps others out.
        end = len(self.fused) if self.strict else self.limit
        first = (self.noted[full_id] for full_id in list(self.fused)[:end])
        return [noted.entry.index for noted in first if noted.book == book]

    def is_gated(self, entry: CompiledEntry) -> bool:
        """Return whether the entry is recalled only if its secondary logic holds."""
        return self.strict and bool(entry.secondary) and entry.full_id in self.fused

    def ranks(self, full_id: str) -> Ranks:
        """Return how an entry ranked."""
        noted = self.noted.get(full_id)
        if noted is None:
            return NO_RANKS
        out: Recalled | None = None
        if noted.below:
            out = "below_floor"
        elif full_id not in self.kept:
            out = "gated" if full_id in self.gated else "outranked"
        near = noted.similarity
        rounded = None if near is None else round(near, _DIGITS) + 0.0  # never minus zero
        return Ranks(self.lexical.get(full_id), self.vector.get(full_id), rounded, out)

    def admit(self, fault_of: Callable[[str], str | None]) -> None:
        """Recall the best that pass the gate, down the fused list until there are enough.

        Args:
            fault_of: what an entry's secondary logic fails for, None if it holds or has no say.
        """
        for full_id, score in self.fused.items():
            if len(self.kept) == self.limit:
                break
            fault = fault_of(full_id) if self.strict else None
            if fault is None:
                self.kept[full_id] = score
            else:
                self.gated[full_id] = fault


def rank(
    books: Sequence[CompiledBook],
    request: SelectRequest,
    vectors: VectorScores,
    refusal: Callable[[CompiledEntry], Refusal | None],
    steps: Steps,
) -> Recall:
    """Return the entries that rank for the query; none of them is admitted yet.

    Only eligible entries take a place; statistics are those of all entries.

    Args:
        books: the snapshot, in request order.
        request: the turn.
        vectors: of the caller.
        refusal: says which filter an entry fails, None if it is eligible.
        steps: what it may cost.

    Raises:
        ValidationFailedError: a book has another number of entries than similarities.
    """
    similarities = [] if vectors.degraded else [_similarities(book, vectors) for book in books]
    lists = _Lists(similarities, request.recall_floor, refusal, steps)

    def name_of(number: int, place: int) -> str:
        return books[number].entries[place].full_id

    def count(work: int) -> None:
        steps.spend("recall", work)

    ranking = Ranking([book.lexical() for book in books], request.query, count=count)
    lexical = lists.fill(_entries(books, ranking.best_first(name_of)))
    nearest = _entries(books, nearest_first(similarities, name_of))
    vector = lists.fill((each for each in nearest if each[1].spec.recall), falling=True)
    return Recall(
        lexical={full_id: place for place, full_id in enumerate(lexical, 1)},
        vector={full_id: place for place, full_id in enumerate(vector, 1)},
        fused=fuse([lexical, vector], keep=2 * LIST_LENGTH),
        noted=lists.noted,
        limit=KEPT if request.recall_limit is None else request.recall_limit,
        strict=request.recall_gate == "strict",
    )


@dataclass(slots=True)
class _Lists:
    """Fills lists with what may be recalled."""

    similarities: Sequence[NDArray[float64]]  # of each book; empty where vectors can't be used
    floor: float | None
    refusal: Callable[[CompiledEntry], Refusal | None]
    steps: Steps
    noted: dict[str, RecallCandidate] = field(default_factory=dict)

    def fill(
        self, found: Iterable[tuple[int, CompiledEntry]], *, falling: bool = False
    ) -> list[str]:
        """Return the first 100 of them that are eligible and not below the floor.

        Args:
            found: number of the book and entry, best first.
            falling: whether they go by similarity, so that after one below the floor all are.
        """
        listed: list[str] = []
        came_up = 0
        for number, entry in found:
            self.steps.spend("recall")
            if self.refusal(entry) is not None:
                continue
            came_up += 1
            similarity = self._similarity(number, entry)
            below = self.floor is not None and similarity is not None and similarity < self.floor
            if below and came_up > LIST_LENGTH:  # without a floor it would have no place either
                if falling:
                    break
                continue
            self.noted[entry.full_id] = RecallCandidate(number, entry, similarity, below)
            if not below:
                listed.append(entry.full_id)
                if len(listed) == LIST_LENGTH:
                    break
        return listed

    def _similarity(self, number: int, entry: CompiledEntry) -> float | None:
        if not self.similarities or not entry.spec.recall:
            return None
        similarity = float(self.similarities[number][entry.index])
        return similarity if similarity == similarity else None  # noqa: PLR0124  NaN


def _similarities(book: CompiledBook, vectors: VectorScores) -> NDArray[float64]:
    import numpy as np  # noqa: PLC0415  see above

    given = vectors.similarities.get((book.book_id, book.revision))
    if given is None:
        return np.full(book.entry_count, np.nan)
    similarities = np.asarray(given, np.float64)
    if similarities.shape != (book.entry_count,):
        shape = " x ".join(map(str, similarities.shape)) or "one number"
        reason = (
            f"the book {book.book_id} has {book.entry_count} entries in revision {book.revision},"
            f" its similarities are {shape}"
        )
        raise ValidationFailedError.at(
            Fault("/similarities", reason), book_id=book.book_id, revision=book.revision
        )
    return similarities


def _entries(
    books: Sequence[CompiledBook], found: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, CompiledEntry]]:
    return ((number, books[number].entries[place]) for number, place in found)
