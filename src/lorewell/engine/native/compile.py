"""From a book to its compiled form: keys parsed, automata built, tokens and packages known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter

from lorewell.engine.conditions import (
    Flaw,
    parse_expression,
    read_key_expression,
    words_of,
)
from lorewell.engine.matching.keys import Key, LiteralKey, RegexKey, fold_key, split_regex, trim
from lorewell.engine.matching.literal import LiteralIndex
from lorewell.engine.native.compiled import (
    Closure,
    CompiledBook,
    CompiledEntry,
    ConditionText,
    Diagnostic,
    Gate,
    KeyExpression,
)
from lorewell.engine.render import SEPARATOR, Template, find_template, opening_tag, wrap
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import CHARS_PER_STEP, TokenCounter, counter as token_counter
from lorewell.errors import Fault, InvalidDependencyError, ValidationFailedError
from lorewell.jsregex import Pattern
from lorewell.model import BookCreate, Decision, Entry, SnapshotItem, content_hash
from lorewell.model.select import is_uuid
from lorewell.model.text import is_blank, pointer
from lorewell.retrieval.bm25 import EntryTexts, build_index

MAX_PACKAGE_ENTRIES = 50  # docs/rules/native.md §8.8
MAX_PACKAGE_EDGES = 8
_STEPS_PER_ENTRY, _STEPS_PER_KEY, _STEPS_PER_TEXT = 30, 5, 25
CERTAIN = 100  # percent: no roll is thrown


def compile_book(
    book: BookCreate,
    *,
    book_id: str | None = None,
    revision: int = 1,
    counter: TokenCounter | None = None,
    steps: Steps | None = None,
) -> CompiledBook:
    """Return the book ready for selection.

    Args:
        book: one whole revision.
        book_id: a UUID; without it one is derived from the content, so it is the same every time.
        revision: 1 or more. Both are part of what a block costs in tokens.
        counter: counts tokens; `cl100k_base` if not given.
        steps: what it may cost, of a book that comes with a request; a stored one has no limit.

    Raises:
        TooExpensiveError: it needs more than `steps`.
        InvalidDependencyError: `requires` names a missing entry or the entry itself, or closes a
            circle.
        ValidationFailedError: `book_id` is no UUID, or `revision` is below 1.

    >>> from lorewell import BookCreate, Entry
    >>> book = compile_book(BookCreate(name="Harbour", entries=[Entry(content="A lamp.")]))
    >>> book.entry_count, book.entries[0].spec.id
    (1, 'entry-0')
    """
    digest = content_hash(book, watch=None if steps is None else steps.watch)
    identity = _check_identity(book_id or _uuid_of(digest), revision)
    closures = _close_packages(book.entries)
    counter = counter or token_counter()
    keys = _KeyTable()
    gates = _GateTable()
    diagnostics: list[Diagnostic] = []
    entries = []
    for index, spec in enumerate(book.entries):
        if steps is not None:
            steps.spend("compile", _work(spec))
        full_id = f"{identity}:{revision}:{spec.id}"
        primary = keys.add(index, spec, spec.keys, diagnostics)
        wanted = spec.secondary_keys if spec.selective else ()
        secondary = keys.add(index, spec, wanted, diagnostics)
        expression = keys.add_expression(index, spec, diagnostics)
        template = find_template(spec.content)
        tag = opening_tag(full_id, spec.title)
        cost = None if template else cost_of(tag, spec.content, counter)
        idle = Decision(
            id=full_id,
            book_id=identity,
            revision=revision,
            entry_id=spec.id,
            selected=False,
            reason="not_triggered",
            cost=cost,
        )
        entries.append(
            CompiledEntry(
                index=index,
                full_id=full_id,
                spec=spec,
                primary=primary,
                secondary=secondary,
                expression=expression,
                has_regex=any(isinstance(key, RegexKey) for key in (*primary, *secondary)),
                texts=_read_conditions(spec, diagnostics),
                template=template,
                tag=tag,
                cost=cost,
                gate=gates.find(spec, template),
                closure=closures[index],
                idle=None if template or spec.probability < CERTAIN else idle,
            )
        )
    return CompiledBook(
        book_id=identity,
        revision=revision,
        name=book.name,
        content_hash=digest,
        counter=counter,
        entries=tuple(entries),
        by_id={entry.spec.id: entry for entry in entries},
        folded=keys.index(case_sensitive=False),
        exact=keys.index(case_sensitive=True),
        snapshot=SnapshotItem(
            book_id=identity,
            revision=revision,
            content_hash=digest,
            entry_count=len(entries),
        ),
        always=tuple(e.index for e in entries if e.spec.required or e.spec.constant),
        with_regex=tuple(e.index for e in entries if e.has_regex),
        ungated=tuple(e.index for e in entries if e.gate is None),
        looks=tuple(map(_look, entries)),
        depths=frozenset(e.spec.scan_depth for e in entries if e.spec.scan_depth is not None),
        lexical=cache(lambda: build_index(_documents(book.entries))),
        content_chars=sum(len(spec.content) for spec in book.entries),
        diagnostics=tuple(diagnostics),
    )


def _work(spec: Entry) -> int:
    """Return the steps that it takes to compile an entry."""
    keys = len(spec.keys) + len(spec.secondary_keys)
    texts = len(spec.conditions_text) + (spec.key_expression is not None)
    tokens = len(spec.content) // CHARS_PER_STEP
    return _STEPS_PER_ENTRY + keys * _STEPS_PER_KEY + texts * _STEPS_PER_TEXT + tokens


def _look(entry: CompiledEntry) -> int:
    """Return the steps that it takes to look at an entry's keys."""
    return 1 + (len(entry.primary) + len(entry.secondary) + _words(entry.expression)) // 2


def _words(expression: KeyExpression | None) -> int:
    return 0 if expression is None else len(expression.keys) + len(expression.wanted)


def cost_of(tag: str, content: str, counter: TokenCounter) -> int:
    """Return the tokens that an entry takes in the context. Costs add up exactly (§8.8)."""
    return counter.count(wrap(tag, content) + SEPARATOR)


def _read_conditions(spec: Entry, diagnostics: list[Diagnostic]) -> tuple[ConditionText, ...]:
    """Return the entry's conditions in words, read; those that can't be are reported."""
    texts = []
    for text in spec.conditions_text:
        parsed = parse_expression(text)
        if isinstance(parsed, Flaw):
            message = f"{text!r} never holds: at character {parsed.at}, {parsed.detail}"
            diagnostics.append(Diagnostic(spec.id, "condition_unreadable", message))
        texts.append(ConditionText(text=text, parsed=parsed))
    return tuple(texts)


def _documents(entries: Sequence[Entry]) -> Iterator[EntryTexts]:
    """Yield what is ranked of each entry: regex keys are no words of a text (§8.11)."""
    for spec in entries:
        plain = [key for key in spec.keys if split_regex(trim(key)) is None]
        yield EntryTexts(spec.title, plain, spec.content)


def _check_identity(book_id: str, revision: int) -> str:
    faults = []
    if not is_uuid(book_id):
        faults.append(Fault("/book_id", f"{book_id!r} is no UUID"))
    if revision < 1:
        faults.append(Fault("/revision", f"must be at least 1, is {revision}"))
    if faults:
        raise ValidationFailedError.at(*faults)
    return book_id.lower()


def _uuid_of(digest: str) -> str:
    """Return a UUID of version 8 (RFC 9562) made of the first bits of a hash."""
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def check_requires(entries: Sequence[Entry]) -> None:
    """Refuse dependencies that can't be met (§3.2).

    Raises:
        InvalidDependencyError: `requires` names a missing entry or the entry itself, or closes a
            circle.
    """
    _close_packages(entries)


def _close_packages(entries: Sequence[Entry]) -> Sequence[Closure]:
    """Return the package of each entry, or refuse dependencies that can't be met (§3.2)."""
    places = {entry.id: index for index, entry in enumerate(entries)}
    faults = [
        Fault(pointer("entries", index, "requires", at), why)
        for index, entry in enumerate(entries)
        for at, name in enumerate(entry.requires)
        if (why := _flaw(entry.id, name, places))
    ]
    if faults:
        raise _invalid_dependency(faults)
    needs = {
        index: tuple(places[name] for name in entry.requires) for index, entry in enumerate(entries)
    }
    try:
        order = tuple(TopologicalSorter(needs).static_order())
    except CycleError as error:
        circle: list[int] = error.args[1]
        names = " -> ".join(entries[index].id for index in reversed(circle))
        faults = [Fault(pointer("entries", circle[0], "requires"), f"closes a circle: {names}")]
        raise _invalid_dependency(faults) from error
    closures: dict[int, Closure] = {}
    for index in order:
        closures[index] = _close(entries, index, [closures[need] for need in needs[index]])
    return [closures[index] for index in range(len(entries))]


def _flaw(entry_id: str, name: str, places: Mapping[str, int]) -> str | None:
    if name == entry_id:
        return f"{name!r} requires itself"
    return None if name in places else f"there is no entry {name!r} in this book"


def _invalid_dependency(faults: Sequence[Fault]) -> InvalidDependencyError:
    return InvalidDependencyError.at(*faults)


def _close(entries: Sequence[Entry], index: int, needed: Sequence[Closure]) -> Closure:
    members = {index}
    for closure in needed:
        members.update(closure.members)
        if len(members) > MAX_PACKAGE_ENTRIES:  # too many is too many: no need to know how many
            break
    edges = max((closure.edges + 1 for closure in needed), default=0)
    # By id, so that the order of entries in the file decides nothing.
    by_id = sorted(members, key=lambda member: entries[member].id)
    return Closure(members=tuple(by_id[: MAX_PACKAGE_ENTRIES + 1]), edges=edges)


class _GateTable:
    """Finds the entries that pass or fail the filters together, whatever the request."""

    def __init__(self) -> None:
        self._gates: dict[Gate, Gate] = {}

    def find(self, spec: Entry, template: Template | None) -> Gate | None:
        """Return the gate that the entry shares with others; None if it is a case of its own."""
        if spec.conditions or spec.conditions_text or spec.runtime_requirements:
            return None
        if spec.probability < CERTAIN or template or not spec.enabled or is_blank(spec.content):
            return None
        gate = Gate(spec.audience, spec.kind, spec.position, spec.outlet_name)
        return self._gates.setdefault(gate, gate)


class _KeyTable:
    """Collects the keys of a book while it is compiled: each distinct pattern once."""

    def __init__(self) -> None:
        self._patterns: dict[bool, dict[str, int]] = {False: {}, True: {}}
        self._entries: dict[bool, list[dict[int, None]]] = {False: [], True: []}

    def add(
        self, index: int, spec: Entry, keys: Sequence[str], diagnostics: list[Diagnostic]
    ) -> tuple[Key, ...]:
        """Return the entry's keys, parsed; blank ones are reported and left out."""
        parsed: list[Key] = []
        for key in keys:
            trimmed = trim(key)
            if not trimmed:
                diagnostics.append(Diagnostic(spec.id, "blank_key", "a blank key never matches"))
            elif (regex := split_regex(trimmed)) is not None:
                parsed.append(RegexKey(key, Pattern(*regex)))
            else:
                parsed.append(self._literal(index, spec, key))
        return tuple(parsed)

    def add_expression(
        self, index: int, spec: Entry, diagnostics: list[Diagnostic]
    ) -> KeyExpression | None:
        """Return the entry's key expression, read; one that can't hold is reported and left out."""
        text = spec.key_expression
        if text is None:
            return None
        parsed = read_key_expression(text)
        if isinstance(parsed, Flaw):
            message = f"{text!r} never holds: at character {parsed.at}, {parsed.detail}"
            diagnostics.append(Diagnostic(spec.id, "key_expression_unreadable", message))
            return None
        words = dict(words_of(parsed))
        return KeyExpression(
            text=text,
            parsed=parsed,
            keys={word: self._literal(index, spec, word) for word in words},
            wanted=tuple(word for word, wanted in words_of(parsed) if wanted),
        )

    def _literal(self, index: int, spec: Entry, key: str) -> LiteralKey:
        patterns = self._patterns[spec.case_sensitive]
        entries = self._entries[spec.case_sensitive]
        folded = fold_key(trim(key), case_sensitive=spec.case_sensitive)
        pattern = patterns.setdefault(folded, len(patterns))
        if pattern == len(entries):
            entries.append({})
        entries[pattern][index] = None
        return LiteralKey(key, pattern, spec.match_whole_words)

    def index(self, *, case_sensitive: bool) -> LiteralIndex:
        """Return the automaton of the keys collected."""
        entries = self._entries[case_sensitive]
        return LiteralIndex(tuple(self._patterns[case_sensitive]), [tuple(e) for e in entries])
