"""Hybrid recall: ranks entries for the query (docs/rules/native.md §8.6, §9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Self

from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.eligibility import Eligibility
from lorewell.engine.steps import Steps
from lorewell.errors import Fault, ValidationFailedError
from lorewell.model import SelectRequest
from lorewell.model.decision import Recalled
from lorewell.model.select import RecallBounds
from lorewell.retrieval.bm25 import Ranking
from lorewell.retrieval.evidence import Evidence, QuietScale, weigh
from lorewell.retrieval.fusion import KEPT, LIST_LENGTH, fuse
from lorewell.retrieval.order import nearest_first
from lorewell.retrieval.recent import recent_text
from lorewell.retrieval.scripts import main_script

if TYPE_CHECKING:  # numpy is loaded only when a book is first ranked
    from numpy import float64
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorScores:
    """Similarities of the entries to the query, from the caller's vectors.

    Attributes:
        similarities: by book id and revision, the cosine similarity of each entry in stored order;
            NaN for an entry without a vector. Entries of a missing book have none.
        embedding_version: the version of the embedding.
        scales: by book id and revision, what texts that need no lore reach, by language; without
            them, `recall_floor: "auto"` goes by words alone.
        degraded: why vectors can't be used; if not empty, `similarities` is ignored.
        partial: causes to report why entries lack a vector, while the others are used.
    """

    similarities: Mapping[tuple[str, int], NDArray[float64]] = field(default_factory=dict)
    scales: Mapping[tuple[str, int], Mapping[str, QuietScale]] = field(default_factory=dict)
    embedding_version: str | None = None
    degraded: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()

    @property
    def causes(self) -> tuple[str, ...]:
        """All causes, sorted."""
        return tuple(sorted({*self.degraded, *self.partial}))

    @classmethod
    def of(
        cls,
        similarities: Mapping[str, float],
        books: Iterable[CompiledBook],
        *,
        embedding_version: str | None = None,
        scales: Mapping[tuple[str, int], Mapping[str, QuietScale]] | None = None,
    ) -> Self:
        """Return the scores from similarities by full id.

        Args:
            similarities: cosine similarity by full id. Missing entries have no vector; unknown ids
                are ignored.
            books: the compiled revisions with the entries.
            embedding_version: the version of the embedding.
            scales: as the attribute.

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
        return cls(similarities=found, embedding_version=embedding_version, scales=scales or {})


_DIGITS = 6  # of a similarity in the ledger
NO_VECTORS = VectorScores(degraded=("vector_disabled",))


class RecallCandidate(NamedTuple):
    """An eligible entry considered for a list.

    Attributes:
        book: number of its book in the snapshot.
        similarity: its similarity to the query; None if it has none.
        below: whether it is below the request's floor, and so is not recalled.
        evidence: under `auto`, what words and similarity say.
    """

    book: int
    entry: CompiledEntry
    similarity: float | None
    below: bool
    evidence: Evidence | None = None


class Ranks(NamedTuple):
    """The ranks of an entry, as in `Facts`; `recall` only says why it is not recalled."""

    lexical_rank: int | None = None
    vector_rank: int | None = None
    similarity: float | None = None
    recall: Recalled | None = None
    evidence: float | None = None
    words_above: float | None = None
    similarity_above: float | None = None


NO_RANKS = Ranks()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """The ranked entries. All mappings are by full id.

    Attributes:
        lexical, vector: places in the two lists, from 1.
        fused: scores of all entries with a place, best first.
        considered: the entries with a place, and those below the floor.
        limit: maximum number of recalled entries.
        tokens: maximum number of their tokens; None for no bound.
        strict: whether the secondary logic of a recalled entry must hold.
        kept: scores of the recalled entries, best first; empty before `admit`.
        gated: the entries that the gate refused, and why; empty before `admit`.
    """

    lexical: Mapping[str, int] = field(default_factory=dict)
    vector: Mapping[str, int] = field(default_factory=dict)
    fused: Mapping[str, float] = field(default_factory=dict)
    considered: Mapping[str, RecallCandidate] = field(default_factory=dict)
    limit: int = KEPT
    tokens: int | None = None
    strict: bool = False
    kept: Mapping[str, float] = field(default_factory=dict)
    gated: Mapping[str, str] = field(default_factory=dict)

    def candidates_of(self, book: int) -> list[int]:
        """Return the indexes of a book's entries that may be recalled."""
        # With a strict gate, or if one is too long, entries below the limit may move up.
        moves_up = self.strict or self.tokens is not None
        end = len(self.fused) if moves_up else self.limit
        first = (self.considered[full_id] for full_id in list(self.fused)[:end])
        return [candidate.entry.index for candidate in first if candidate.book == book]

    def is_gated(self, entry: CompiledEntry) -> bool:
        """Return whether the gate applies to the entry."""
        return self.strict and bool(entry.secondary) and entry.full_id in self.fused

    def ranks(self, full_id: str) -> Ranks:
        """Return the ranks of an entry."""
        candidate = self.considered.get(full_id)
        if candidate is None:
            return NO_RANKS
        miss: Recalled | None = None
        if candidate.below:
            miss = "below_floor"
        elif full_id not in self.kept:
            miss = "gated" if full_id in self.gated else "outranked"
        similarity = candidate.similarity
        rounded = None if similarity is None else round(similarity, _DIGITS) + 0.0  # no minus zero
        parts = candidate.evidence or (None, None, None)
        return Ranks(self.lexical.get(full_id), self.vector.get(full_id), rounded, miss, *parts)

    def admit(
        self, fault_of: Callable[[str], str | None], cost_of: Callable[[RecallCandidate], int]
    ) -> Recall:
        """Return the ranking with the best entries recalled that pass the gate and fit the bounds.

        Args:
            fault_of: returns why the gate refuses an entry, None if it passes.
            cost_of: returns the tokens of an entry.
        """
        kept: dict[str, float] = {}
        gated: dict[str, str] = {}
        left = self.tokens
        for full_id, score in self.fused.items():
            if len(kept) == self.limit:
                break
            fault = fault_of(full_id) if self.strict else None
            if fault is not None:
                gated[full_id] = fault
                continue
            if left is not None:
                cost = cost_of(self.considered[full_id])
                if cost > left:  # a later, shorter entry still gets its chance
                    continue
                left -= cost
            kept[full_id] = score
        return replace(self, kept=kept, gated=gated)


def recall_text(request: SelectRequest) -> str:
    """Return the text that entries are ranked by, which is also the one to embed."""
    if request.recall_query == "query":
        return request.query
    return recent_text(request.query, [message.content for message in request.history])


def rank(
    books: Sequence[CompiledBook],
    request: SelectRequest,
    vectors: VectorScores,
    eligible: Eligibility,
    steps: Steps,
) -> Recall:
    """Rank the entries for the query; none is admitted yet.

    Only eligible entries take a place. The statistics are those of all entries.

    Args:
        books: the snapshot, in request order.
        request: the turn.
        vectors: similarities from the caller.
        eligible: the filters.
        steps: the step budget.

    Raises:
        ValidationFailedError: the numbers of entries and similarities of a book differ.
    """
    similarities = [] if vectors.degraded else [_similarities(book, vectors) for book in books]
    floor = request.recall_floor if isinstance(request.recall_floor, int | float) else None
    lists = _Lists(similarities, floor, eligible, steps)

    def name_of(number: int, place: int) -> str:
        return books[number].entries[place].full_id

    def count(work: int) -> None:
        steps.spend("recall", work)

    text = recall_text(request)
    ranking = Ranking([book.lexical() for book in books], text, count=count)
    lexical = lists.fill(_entries(books, ranking.best_first(name_of)))
    nearest = _entries(books, nearest_first(similarities, name_of))
    vector = lists.fill((each for each in nearest if each[1].spec.recall), falling=True)
    ranked = Recall(
        lexical={full_id: place for place, full_id in enumerate(lexical, 1)},
        vector={full_id: place for place, full_id in enumerate(vector, 1)},
        fused=fuse([lexical, vector], keep=2 * LIST_LENGTH),
        considered=lists.considered,
        limit=KEPT if request.recall_limit is None else request.recall_limit,
        tokens=request.recall_tokens,
        strict=request.recall_gate == "strict",
    )
    bounds = request.recall_bounds
    return ranked if bounds is None else _by_evidence(ranked, books, text, ranking, bounds)


def _by_evidence(
    ranked: Recall,
    books: Sequence[CompiledBook],
    query: str,
    ranking: Ranking,
    bounds: RecallBounds,
) -> Recall:
    """Return the entries of both lists ranked by evidence, those below the floor apart."""
    script = main_script(query)
    scales = [
        (
            QuietScale(each.words.mean, each.words.deviation),
            each.vectors and QuietScale(each.vectors.mean, each.vectors.deviation),
        )
        for each in bounds.books
    ]
    considered = {}
    for full_id, candidate in ranked.considered.items():
        number, entry = candidate.book, candidate.entry
        words, near = scales[number]
        similarity = candidate.similarity
        evidence = weigh(
            words.place(ranking.strength(number, entry.index)),
            near.place(similarity) if near and similarity is not None else None,
            query_script=script,
            entry_script=books[number].scripts()[entry.index],
        )
        below = evidence.value < bounds.floor
        considered[full_id] = candidate._replace(below=below, evidence=evidence)
    scores = {
        full_id: candidate.evidence.value
        for full_id, candidate in considered.items()
        if candidate.evidence is not None and not candidate.below
    }
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return replace(
        ranked,
        fused=dict(best),
        considered=considered,
        limit=bounds.limit,
        tokens=bounds.tokens,
    )


@dataclass(slots=True)
class _Lists:
    """Builds the ranked lists."""

    similarities: Sequence[NDArray[float64]]  # by book; empty if vectors can't be used
    floor: float | None
    eligible: Eligibility
    steps: Steps
    considered: dict[str, RecallCandidate] = field(default_factory=dict)

    def fill(
        self, found: Iterable[tuple[int, CompiledEntry]], *, falling: bool = False
    ) -> list[str]:
        """Return the full ids of the first 100 entries that are eligible and not below the floor.

        Args:
            found: number of the book and entry, best first.
            falling: whether similarities fall, so that all entries after one below the floor are
                below it, too.
        """
        listed: list[str] = []
        eligible_count = 0
        for number, entry in found:
            self.steps.spend("recall")
            if self.eligible.refusal(entry) is not None:
                continue
            eligible_count += 1
            similarity = self._similarity(number, entry)
            below = self.floor is not None and similarity is not None and similarity < self.floor
            if (
                below and eligible_count > LIST_LENGTH
            ):  # it would have no place without the floor either
                if falling:
                    break
                continue
            self.considered[entry.full_id] = RecallCandidate(number, entry, similarity, below)
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
