"""Sorts the active entries into the output by position (docs/rules/sillytavern.md §12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lorewell.engine.sillytavern.item import ScanItem
from lorewell.engine.sillytavern.javascript import MISSING, sort_descending
from lorewell.engine.sillytavern.ledger import Ledger
from lorewell.engine.sillytavern.scan_entry import EntryPosition
from lorewell.model.activate import AuthorsNote
from lorewell.model.activated import DepthGroup, ExampleEntry

_DEFAULT_DEPTH: Final = 4
_DEFAULT_ROLE: Final = 0  # system
_ABOVE_EXAMPLES: Final = 0
_BELOW_EXAMPLES: Final = 1


class _Group(NamedTuple):
    depth: object
    role: object
    entries: list[str]


@dataclass(slots=True)
class Output:
    """The texts by position; all lists except outlets are in ascending order of entries."""

    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    examples: list[ExampleEntry] = field(default_factory=list)
    note_top: list[str] = field(default_factory=list)
    note_bottom: list[str] = field(default_factory=list)
    outlets: dict[str, list[str]] = field(default_factory=dict)
    _groups: list[_Group] = field(default_factory=list)
    _by_place: dict[object, _Group] = field(default_factory=dict)

    @classmethod
    def of(cls, active: Iterable[ScanItem], ledger: Ledger) -> Output:
        """Place the active entries; those without text or without a position are left out."""
        output = cls()
        for item in sort_descending(active, lambda item: item.entry.order):
            if item.content:
                output._place(item)
            else:
                ledger.add("empty_content", item.id)
        output._reverse()
        return output

    def _reverse(self) -> None:
        """Put the texts in ascending order; they were added in descending order."""
        lists = (self.before, self.after, self.note_top, self.note_bottom)
        for texts in (*lists, *(group.entries for group in self._groups)):
            texts.reverse()
        self.examples.reverse()

    def _place(self, item: ScanItem) -> None:
        text = item.content
        match item.entry.position:
            case EntryPosition.BEFORE:
                self.before.append(text)
            case EntryPosition.AFTER:
                self.after.append(text)
            case EntryPosition.NOTE_TOP:
                self.note_top.append(text)
            case EntryPosition.NOTE_BOTTOM:
                self.note_bottom.append(text)
            case EntryPosition.AT_DEPTH:
                self._place_at_depth(item)
            case EntryPosition.BEFORE_EXAMPLES:
                self.examples.append(ExampleEntry(_ABOVE_EXAMPLES, text))
            case EntryPosition.AFTER_EXAMPLES:
                self.examples.append(ExampleEntry(_BELOW_EXAMPLES, text))
            case EntryPosition.OUTLET if item.entry.outlet:
                self.outlets.setdefault(item.entry.outlet, []).append(text)

    def _place_at_depth(self, item: ScanItem) -> None:
        """Add an entry to the group of its depth and role, or open a new group.

        An entry without a depth joins the group of depth 4 if there is one. The group that it
        opens has no depth, so no other entry finds that group. Golden case: positions-037.
        """
        entry = item.entry
        role = _DEFAULT_ROLE if entry.role is MISSING or entry.role is None else entry.role
        wanted = _DEFAULT_DEPTH if entry.depth is MISSING or entry.depth is None else entry.depth
        known = self._by_place.get((_hashable(wanted), _hashable(role)))
        if known is not None:
            known.entries.append(item.content)
            return
        group = _Group(entry.depth, role, [item.content])
        self._groups.append(group)
        self._by_place.setdefault((_hashable(entry.depth), _hashable(role)), group)

    @property
    def depth_groups(self) -> tuple[DepthGroup, ...]:
        """The groups of position `AT_DEPTH`, in order of first appearance."""
        return tuple(
            DepthGroup(
                depth=None if group.depth is MISSING else group.depth,
                role=group.role,
                entries=tuple(group.entries),
                has_depth=group.depth is not MISSING,
            )
            for group in self._groups
        )

    def merge_note(self, note: AuthorsNote | None) -> str | None:
        """Return the author's note with its entries around it; None if there is none to insert."""
        if note is None or not note.insert:
            return None
        merged = "\n".join(self.note_top) + f"\n{note.value}\n" + "\n".join(self.note_bottom)
        return merged.removeprefix("\n").removesuffix("\n")


def _hashable(value: object) -> object:
    """Return a hashable value for a JSON value; equal JSON values give equal results."""
    if isinstance(value, Mapping):
        return "object", frozenset((name, _hashable(member)) for name, member in value.items())
    if isinstance(value, list | tuple):
        return "list", tuple(map(_hashable, value))
    return value
