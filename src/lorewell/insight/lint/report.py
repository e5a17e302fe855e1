"""Collects findings, folds repeated ones, and makes their fixes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from lorewell.insight.lint.codes import BY_NAME, TABLE, LintCode
from lorewell.insight.lint.judged import JudgedBook, JudgedEntry, JudgedKey
from lorewell.model.entry import MAX_KEYS
from lorewell.model.lint import Figure, Finding, FixOperation, LintFix
from lorewell.model.plain import plain
from lorewell.model.text import pointer

MAX_OF_A_CODE: Final = 20  # findings of a code; more of them become one
MAX_ENTRIES_SHOWN: Final = 1_000
_SHOWN_CHARS: Final = 60


def shown(text: str) -> str:
    """Return a text of the book for a sentence: quoted, short, hidden characters as escapes."""
    escaped = plain(text[:_SHOWN_CHARS])
    return f'"{escaped}…"' if len(text) > _SHOWN_CHARS else f'"{escaped}"'


def listed(texts: Iterable[str], most: int = 5) -> str:
    """Return texts as a list for a sentence."""
    items = list(texts)
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


@dataclass(frozen=True, slots=True)
class KeyEdit:
    """Replaces one key of an entry by others; by none to remove it."""

    entry: int
    field: str
    index: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ValueEdit:
    """Replaces the text of a field of an entry."""

    entry: int
    field: str
    value: str


Edit = KeyEdit | ValueEdit


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A finding before it is folded.

    Attributes:
        entries: indexes in the book; the first one is where it is.
        pointer: from the book.
    """

    code: LintCode
    entries: tuple[int, ...]
    pointer: str
    text: str
    span: tuple[int, int] | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    label: str = ""
    edits: tuple[Edit, ...] = ()


class Report:
    """The findings of a book."""

    def __init__(self, book: JudgedBook) -> None:
        """Start empty."""
        self._book = book
        self._found: list[Found] = []
        self._seen: set[tuple[str, int]] = set()

    def add(  # noqa: PLR0913  the members of a finding
        self,
        name: str,
        text: str,
        *entries: JudgedEntry,
        at: str = "",
        span: tuple[int, int] | None = None,
        label: str = "",
        edits: Sequence[Edit] = (),
        figures: Mapping[str, Figure] | None = None,
    ) -> None:
        """Add a finding.

        Args:
            name: the name of its code.
            text: a sentence.
            entries: the entries that it is about; the first one is where it is.
            at: pointer to the value, from the first entry; without entries, from the book.
            span: the part of that text.
            label: what the fix does.
            edits: the fix.
            figures: figures behind it.
        """
        code = BY_NAME[name]
        step = f"/{at}" if at else ""
        where = pointer("entries", entries[0].index) + step if entries else step
        self._found.append(
            Found(
                code=code,
                entries=tuple(entry.index for entry in entries),
                pointer=where,
                text=text,
                span=span,
                figures=figures or {},
                label=label,
                edits=tuple(edits),
            )
        )
        self._seen.update((name, entry.index) for entry in entries)

    def has(self, name: str, entry: JudgedEntry) -> bool:
        """Return whether there is such a finding about an entry."""
        return (name, entry.index) in self._seen

    def findings(self, codes: frozenset[str], ignored: Ignored) -> tuple[Finding, ...]:
        """Return the findings of these codes that nobody ignores, folded, in the table's order."""
        by_code: dict[str, list[Found]] = defaultdict(list)
        for found in self._found:
            code = found.code.code
            if code in codes and not ignored.covers(code, found.entries):
                by_code[code].append(found)
        return tuple(
            self._finding(group)
            for row in TABLE
            for group in _folded(row, by_code.get(row.code, []))
        )

    def _finding(self, group: Sequence[Found]) -> Finding:
        first = group[0]
        specs = self._book.book.entries
        entries = tuple(dict.fromkeys(index for found in group for index in found.entries))
        about = len({found.entries[:1] for found in group})
        text = first.text
        if len(group) > 1:
            where = f" in {about} entries" if about > 1 else ""
            text += f" {len(group) - 1} more like it{where}."
        figures = dict(first.figures) | ({"count": len(group)} if len(group) > 1 else {})
        # Not validated: a book can have thousands of them, and these values are valid.
        return Finding.model_construct(
            code=first.code.code,
            name=first.code.name,
            severity=first.code.severity,
            entry_id=specs[first.entries[0]].id if first.entries else None,
            entries=tuple(specs[index].id for index in islice(entries, MAX_ENTRIES_SHOWN)),
            pointer=first.pointer,
            span=first.span,
            text=text,
            figures=figures,
            fixes=self._fixes(group),
        )

    def _fixes(self, group: Sequence[Found]) -> tuple[LintFix, ...]:
        fixable = [found for found in group if found.edits]
        if not fixable:
            return ()
        label = fixable[0].label
        if len(fixable) > 1:
            label += f", and {len(fixable) - 1} more"
        patch = tuple(self._patch([edit for found in fixable for edit in found.edits]))
        return (LintFix.model_construct(label=label, patch=patch),) if patch else ()

    def _patch(self, edits: Sequence[Edit]) -> Iterator[FixOperation]:
        lists: dict[tuple[int, str], dict[int, tuple[str, ...]]] = {}
        for edit in edits:
            if isinstance(edit, ValueEdit):
                path = pointer("entries", edit.entry, edit.field)
                yield FixOperation.model_construct(op="replace", path=path, value=edit.value)
            else:
                lists.setdefault((edit.entry, edit.field), {}).setdefault(edit.index, edit.keys)
        for (entry, name), changes in lists.items():
            keys: tuple[str, ...] = getattr(self._book.book.entries[entry], name)
            changed = _edited(keys, changes)
            if len(changed) <= MAX_KEYS:
                path = pointer("entries", entry, name)
                yield FixOperation.model_construct(op="replace", path=path, value=changed)


def _edited(keys: Sequence[str], changes: Mapping[int, tuple[str, ...]]) -> list[str]:
    """Return the list with some keys replaced; new keys that it has already are left out."""
    kept = {key for index, key in enumerate(keys) if index not in changes}
    result = []
    for index, key in enumerate(keys):
        if index not in changes:
            result.append(key)
            continue
        for new in changes[index]:
            if new not in kept:
                kept.add(new)
                result.append(new)
    return result


def _folded(row: LintCode, found: Sequence[Found]) -> list[list[Found]]:
    """Return groups of findings that become one each."""
    if row.per == "book":
        return [list(found)] if found else []
    groups: dict[tuple[int, ...], list[Found]] = {}
    for each in found:
        groups.setdefault(each.entries[:1], []).append(each)
    folded = list(groups.values())
    if len(folded) <= MAX_OF_A_CODE:
        return folded
    rest = [each for group in folded[MAX_OF_A_CODE - 1 :] for each in group]
    return [*folded[: MAX_OF_A_CODE - 1], rest]


@dataclass(frozen=True, slots=True)
class Ignored:
    """The codes that the author of a book does not want to hear of.

    Attributes:
        book: for the whole book.
        entries: by index of an entry.
    """

    book: frozenset[str]
    entries: Mapping[int, frozenset[str]]

    def covers(self, code: str, entries: Sequence[int]) -> bool:
        """Return whether a finding about these entries is ignored."""
        if code in self.book:
            return True
        return bool(entries) and all(code in self.entries.get(index, ()) for index in entries[:1])


def edit_key(entry: JudgedEntry, key: JudgedKey, *keys: str) -> tuple[KeyEdit, ...]:
    """Return the edit that replaces a key; none where the policy reads another list."""
    if key.index is None:
        return ()
    return (KeyEdit(entry.index, key.field, key.index, keys),)
