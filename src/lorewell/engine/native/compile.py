"""Compiles a book: parses keys, builds automata, counts tokens, computes packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import TypedDict

from lorewell.engine.conditions import (
    Flaw,
    parse_expression,
    read_key_expression,
    words_of,
)
from lorewell.engine.matching.key_table import KeyTable
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
from lorewell.engine.native.context import cost_of, tag_of
from lorewell.engine.render import opening_tag
from lorewell.engine.steps import Steps
from lorewell.engine.template import Template, find_template
from lorewell.engine.tokens import CHARS_PER_STEP, TokenCounter, counter as token_counter
from lorewell.errors import Fault, InvalidDependencyError, ValidationFailedError
from lorewell.jsregex import Pattern
from lorewell.model import BookCreate, Decision, Entry, SnapshotItem, content_hash
from lorewell.model.select import Wrapper, is_uuid
from lorewell.model.text import is_blank, pointer
from lorewell.retrieval.bm25 import EntryTexts, LexicalIndex, build_index
from lorewell.retrieval.evidence import QuietScale, quiet_words
from lorewell.retrieval.scripts import main_script

MAX_PACKAGE_ENTRIES = 50  # docs/rules/native.md §8.8
MAX_PACKAGE_EDGES = 8
_STEPS_PER_ENTRY, _STEPS_PER_KEY, _STEPS_PER_TEXT = 30, 5, 25
CERTAIN = 100  # percent; such an entry makes no roll


def compile_book(
    book: BookCreate,
    *,
    book_id: str | None = None,
    revision: int = 1,
    counter: TokenCounter | None = None,
    steps: Steps | None = None,
) -> CompiledBook:
    """Compile a book for selection.

    Args:
        book: one whole revision.
        book_id: a UUID; by default derived from the content, so that it is reproducible.
        revision: 1 or more. Both are part of a block's text, and so of its cost in tokens.
        counter: the token counter; `cl100k_base` by default.
        steps: the step budget, for a book inside a request; None for no limit.

    Raises:
        TooExpensiveError: compiling needs more than `steps`.
        InvalidDependencyError: `requires` names a missing entry or the entry itself, or forms a
            cycle.
        ValidationFailedError: `book_id` is not a UUID, or `revision` is below 1.

    >>> from lorewell import BookCreate, Entry
    >>> book = compile_book(BookCreate(name="Harbour", entries=[Entry(content="A lamp.")]))
    >>> book.entry_count, book.entries[0].spec.id
    (1, 'entry-0')
    """
    digest = content_hash(book, watch=None if steps is None else steps.watch)
    identity = _check_identity(book_id or _uuid_of(digest), revision)
    closures = _close_packages(book.entries)
    counter = counter or token_counter()
    diagnostics: list[Diagnostic] = []
    keys = _KeyParser(diagnostics)
    gates = _GateTable()
    compiler = _EntryCompiler(identity, revision, counter, keys, gates, diagnostics)
    entries = []
    for index, spec in enumerate(book.entries):
        if steps is not None:
            steps.spend("compile", _compile_steps(spec))
        entries.append(compiler.compile(index, spec, closures[index]))
    return CompiledBook(
        book_id=identity,
        revision=revision,
        name=book.name,
        content_hash=digest,
        counter=counter,
        entries=tuple(entries),
        by_id={entry.spec.id: entry for entry in entries},
        folded=keys.folded.index(),
        exact=keys.exact.index(),
        snapshot=SnapshotItem(
            book_id=identity,
            revision=revision,
            content_hash=digest,
            entry_count=len(entries),
        ),
        always=tuple(e.index for e in entries if _needs_no_key(e)),
        with_regex=tuple(e.index for e in entries if e.has_regex),
        ungated=tuple(e.index for e in entries if e.gate is None),
        key_steps=tuple(map(_key_steps, entries)),
        depths=frozenset(e.spec.scan_depth for e in entries if e.spec.scan_depth is not None),
        **_ranked(book.entries),
        cost_in=_costs(entries, counter),
        content_chars=sum(len(spec.content) for spec in book.entries),
        diagnostics=tuple(diagnostics),
    )


def with_entries(book: CompiledBook, changed: Mapping[int, Entry]) -> CompiledBook:
    """Return a compiled book with a few entries changed, without compiling the others again.

    It selects what a book with these entries does. The content hash is still that of the original,
    so a fingerprint has no meaning.

    Args:
        book: the compiled book.
        changed: the new entries by index; id, title and content are the old ones.

    Raises:
        InvalidDependencyError: as `compile_book`.
    """
    keys = _KeyParser([], book.folded, book.exact)
    compiler = _EntryCompiler(book.book_id, book.revision, book.counter, keys, _GateTable(), [])
    entries = _with_closures(book.entries, changed)
    key_steps = list(book.key_steps)
    for index, spec in changed.items():
        entries[index] = compiler.compile(index, spec, entries[index].closure)
        key_steps[index] = _key_steps(entries[index])
    new = [entries[index] for index in changed]

    def updated(old: tuple[int, ...], holds: Callable[[CompiledEntry], bool]) -> tuple[int, ...]:
        kept = {index for index in old if index not in changed}
        return tuple(sorted(kept.union(entry.index for entry in new if holds(entry))))

    return replace(
        book,
        entries=tuple(entries),
        by_id={**book.by_id, **{entry.spec.id: entry for entry in new}},
        folded=keys.folded.index(),
        exact=keys.exact.index(),
        always=updated(book.always, _needs_no_key),
        with_regex=updated(book.with_regex, lambda entry: entry.has_regex),
        ungated=updated(book.ungated, lambda entry: entry.gate is None),
        key_steps=tuple(key_steps),
        depths=book.depths.union(
            entry.spec.scan_depth for entry in new if entry.spec.scan_depth is not None
        ),
        **_ranked_after(book, entries, changed),
    )


def _with_closures(
    entries: Sequence[CompiledEntry], changed: Mapping[int, Entry]
) -> list[CompiledEntry]:
    """Return the entries with their packages after the changes."""
    if all(entries[index].spec.requires == spec.requires for index, spec in changed.items()):
        return list(entries)
    specs = [changed.get(entry.index, entry.spec) for entry in entries]
    return [
        entry if entry.closure == closure else replace(entry, closure=closure)
        for entry, closure in zip(entries, _close_packages(specs), strict=True)
    ]


class _RankedMembers(TypedDict):
    """The members of a compiled book that depend on its titles, keys and contents alone."""

    lexical: Callable[[], LexicalIndex]
    quiet_words: Callable[[], Mapping[str, QuietScale]]
    scripts: Callable[[], Sequence[str]]


def _ranked(entries: Sequence[Entry]) -> _RankedMembers:
    lexical = cache(lambda: build_index(_documents(entries)))
    return _RankedMembers(
        lexical=lexical,
        quiet_words=cache(lambda: quiet_words(lexical())),
        scripts=cache(lambda: tuple(main_script(f"{e.title}\n{e.content}") for e in entries)),
    )


def _ranked_after(
    book: CompiledBook, entries: Sequence[CompiledEntry], changed: Mapping[int, Entry]
) -> _RankedMembers:
    """Return what is ranked after the changes."""
    before = (book.entries[index].spec for index in changed)
    if all(
        (old.title, old.keys, old.content) == (new.title, new.keys, new.content)
        for old, new in zip(before, changed.values(), strict=True)
    ):
        return _RankedMembers(
            lexical=book.lexical, quiet_words=book.quiet_words, scripts=book.scripts
        )
    return _ranked([entry.spec for entry in entries])


def _needs_no_key(entry: CompiledEntry) -> bool:
    return entry.spec.required or entry.spec.constant


def _costs(
    entries: Sequence[CompiledEntry], counter: TokenCounter
) -> Callable[[Wrapper, int], int]:
    @cache
    def cost(wrapper: Wrapper, index: int) -> int:
        entry = entries[index]
        return cost_of(tag_of(entry, wrapper), entry.spec.content, counter)

    return cost


def _compile_steps(spec: Entry) -> int:
    """Return the steps for compiling an entry."""
    keys = len(spec.keys) + len(spec.secondary_keys)
    texts = len(spec.conditions_text) + (0 if spec.key_expression is None else 1)
    tokens = len(spec.content) // CHARS_PER_STEP
    return _STEPS_PER_ENTRY + keys * _STEPS_PER_KEY + texts * _STEPS_PER_TEXT + tokens


def _key_steps(entry: CompiledEntry) -> int:
    """Return the steps for matching an entry's keys."""
    return 1 + (len(entry.primary) + len(entry.secondary) + _words(entry.expression)) // 2


def _words(expression: KeyExpression | None) -> int:
    return 0 if expression is None else len(expression.keys) + len(expression.wanted)


def _parse_conditions(spec: Entry, diagnostics: list[Diagnostic]) -> tuple[ConditionText, ...]:
    """Return the entry's `conditions_text`, parsed; invalid ones are reported and never hold."""
    texts = []
    for text in spec.conditions_text:
        parsed = parse_expression(text)
        if isinstance(parsed, Flaw):
            message = f"{text!r} never holds: at character {parsed.at}, {parsed.detail}"
            diagnostics.append(Diagnostic(spec.id, "condition_unreadable", message))
        texts.append(ConditionText(text=text, parsed=parsed))
    return tuple(texts)


def _documents(entries: Sequence[Entry]) -> Iterator[EntryTexts]:
    """Yield the ranked texts of each entry; regex keys are not words and don't count (§8.11)."""
    for spec in entries:
        plain = [key for key in spec.keys if split_regex(trim(key)) is None]
        yield EntryTexts(spec.title, plain, spec.content)


def _check_identity(book_id: str, revision: int) -> str:
    faults = []
    if not is_uuid(book_id):
        faults.append(Fault("/book_id", f"{book_id!r} is not a UUID"))
    if revision < 1:
        faults.append(Fault("/revision", f"must be at least 1, not {revision}"))
    if faults:
        raise ValidationFailedError.at(*faults)
    return book_id.lower()


def _uuid_of(digest: str) -> str:
    """Return a UUID of version 8 (RFC 9562) from the first bits of a hash."""
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def check_requires(entries: Sequence[Entry]) -> None:
    """Check that all dependencies can be met (§3.2).

    Raises:
        InvalidDependencyError: `requires` names a missing entry or the entry itself, or forms a
            cycle.
    """
    _close_packages(entries)


def _close_packages(entries: Sequence[Entry]) -> Sequence[Closure]:
    """Return the package of each entry; dependencies that can't be met are refused (§3.2)."""
    places = {entry.id: index for index, entry in enumerate(entries)}
    faults = [
        Fault(pointer("entries", index, "requires", at), why)
        for index, entry in enumerate(entries)
        for at, name in enumerate(entry.requires)
        if (why := _dependency_fault(entry.id, name, places))
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


def _dependency_fault(entry_id: str, name: str, places: Mapping[str, int]) -> str | None:
    if name == entry_id:
        return f"{name!r} requires itself"
    return None if name in places else f"there is no entry {name!r} in this book"


def _invalid_dependency(faults: Sequence[Fault]) -> InvalidDependencyError:
    return InvalidDependencyError.at(*faults)


def _close(entries: Sequence[Entry], index: int, needed: Sequence[Closure]) -> Closure:
    members = {index}
    for closure in needed:
        members.update(closure.members)
        if len(members) > MAX_PACKAGE_ENTRIES:  # already too many
            break
    edges = max((closure.edges + 1 for closure in needed), default=0)
    # By id, so that the order of entries in the file has no effect.
    by_id = sorted(members, key=lambda member: entries[member].id)
    return Closure(members=tuple(by_id[: MAX_PACKAGE_ENTRIES + 1]), edges=edges)


class _EntryCompiler:
    """Compiles the entries of one book."""

    def __init__(
        self,
        book_id: str,
        revision: int,
        counter: TokenCounter,
        keys: _KeyParser,
        gates: _GateTable,
        diagnostics: list[Diagnostic],
    ) -> None:
        self._book_id = book_id
        self._revision = revision
        self._counter = counter
        self._keys = keys
        self._gates = gates
        self._diagnostics = diagnostics

    def compile(self, index: int, spec: Entry, closure: Closure) -> CompiledEntry:
        """Return the entry at `index`, compiled."""
        full_id = f"{self._book_id}:{self._revision}:{spec.id}"
        keys = self._keys
        primary = keys.parse(index, spec, spec.keys)
        secondary = keys.parse(index, spec, spec.secondary_keys if spec.selective else ())
        expression = keys.parse_expression(index, spec)
        template = find_template(spec.content)
        tag = opening_tag(full_id, spec.title)
        cost = None if template else cost_of(tag, spec.content, self._counter)
        idle = Decision(
            id=full_id,
            book_id=self._book_id,
            revision=self._revision,
            entry_id=spec.id,
            selected=False,
            reason="not_triggered",
            cost=cost,
        )
        return CompiledEntry(
            index=index,
            full_id=full_id,
            spec=spec,
            primary=primary,
            secondary=secondary,
            expression=expression,
            has_regex=any(isinstance(key, RegexKey) for key in (*primary, *secondary)),
            texts=_parse_conditions(spec, self._diagnostics),
            template=template,
            tag=tag,
            cost=cost,
            gate=self._gates.find(spec, template),
            closure=closure,
            idle=None if template or spec.probability < CERTAIN else idle,
        )


class _GateTable:
    """Groups the entries that pass or fail the filters together in every request."""

    def __init__(self) -> None:
        self._gates: dict[Gate, Gate] = {}

    def find(self, spec: Entry, template: Template | None) -> Gate | None:
        """Return the gate that the entry shares with others; None if it must be filtered alone."""
        if spec.conditions or spec.conditions_text or spec.runtime_requirements:
            return None
        if spec.probability < CERTAIN or template or not spec.enabled or is_blank(spec.content):
            return None
        gate = Gate(spec.audience, spec.kind, spec.position, spec.outlet_name)
        return self._gates.setdefault(gate, gate)


class _KeyParser:
    """Parses the keys of a book's entries and collects the literal ones."""

    def __init__(
        self,
        diagnostics: list[Diagnostic],
        folded: LiteralIndex | None = None,
        exact: LiteralIndex | None = None,
    ) -> None:
        self.folded, self.exact = KeyTable(folded), KeyTable(exact)
        self._diagnostics = diagnostics

    def parse(self, index: int, spec: Entry, keys: Sequence[str]) -> tuple[Key, ...]:
        """Return the keys of the entry at `index`, parsed; blank ones are reported and skipped."""
        parsed: list[Key] = []
        for key in keys:
            trimmed = trim(key)
            if not trimmed:
                self._report(spec, "blank_key", "a blank key never matches")
            elif (regex := split_regex(trimmed)) is not None:
                parsed.append(RegexKey(key, Pattern(*regex)))
            else:
                parsed.append(self._literal(index, spec, key))
        return tuple(parsed)

    def parse_expression(self, index: int, spec: Entry) -> KeyExpression | None:
        """Return the entry's key expression, parsed; an invalid one is reported and skipped."""
        text = spec.key_expression
        if text is None:
            return None
        parsed = read_key_expression(text)
        if isinstance(parsed, Flaw):
            message = f"{text!r} never holds: at character {parsed.at}, {parsed.detail}"
            self._report(spec, "key_expression_unreadable", message)
            return None
        words = dict(words_of(parsed))
        return KeyExpression(
            text=text,
            parsed=parsed,
            keys={word: self._literal(index, spec, word) for word in words},
            wanted=tuple(word for word, wanted in words_of(parsed) if wanted),
        )

    def _literal(self, index: int, spec: Entry, key: str) -> LiteralKey:
        table = self.exact if spec.case_sensitive else self.folded
        folded = fold_key(trim(key), case_sensitive=bool(spec.case_sensitive))
        pattern = table.add(folded, wakes=index)
        return LiteralKey(key, pattern, bool(spec.match_whole_words))

    def _report(self, spec: Entry, code: str, message: str) -> None:
        self._diagnostics.append(Diagnostic(spec.id, code, message))
