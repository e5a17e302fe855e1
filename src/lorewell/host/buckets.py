"""Host blocks from an answer of the policy `sillytavern`: its texts by place.

Source: docs/rules/sillytavern.md §12.

Texts are inserted as SillyTavern inserts them: plain, without a wrapper, and those of one place
joined with line breaks. Examples stay separate.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lorewell.engine.sillytavern.javascript import sort_descending
from lorewell.host.blocks import HostBlock, IfMissing, Lasting, Source
from lorewell.model import Position, SillyTavernResponse
from lorewell.model.activated import ActivatedEntry, DepthGroup
from lorewell.model.assemble import Activation, ActiveDepthGroup, ActiveEntry
from lorewell.model.entry import Role

_BEFORE, _AFTER, _NOTE_TOP, _NOTE_BOTTOM, _AT_DEPTH, _EXAMPLES_BEFORE, _EXAMPLES_AFTER, _OUTLET = (
    range(8)
)
_DEFAULT_DEPTH: Final = 4
_MAX_DEPTH: Final = 10_000
_ROLES: Final[Mapping[object, Role]] = {0: "system", 1: "user", 2: "assistant"}
_ALWAYS_IN = frozenset({"constant", "decorator_activate"})

_Entry = ActivatedEntry | ActiveEntry


class _Text(NamedTuple):
    text: str
    entries: tuple[_Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    position: Position
    depth: int = 0
    role: Role = "system"
    order: int = 0
    outlet_name: str | None = None
    if_missing: IfMissing = "fail"


def from_activation(
    answer: SillyTavernResponse | Activation, *, split_lasting: bool = False
) -> tuple[HostBlock, ...]:
    """Return the texts of an activation as blocks, by place.

    A missing place is handled as in SillyTavern: entries of a missing author's note or outlet are
    left out, and examples go where the examples would be. An invalid depth counts as 4, an invalid
    role as `system`.

    Args:
        answer: of the policy `sillytavern`.
        split_lasting: whether constant and sticky entries before and after the character become
            separate blocks.
    """
    buckets = _Buckets(answer)
    sides: tuple[tuple[int, str, Position], ...] = (
        (_BEFORE, answer.world_info_before, "before_character"),
        (_AFTER, answer.world_info_after, "after_character"),
    )
    blocks: list[HostBlock] = []
    for number, joined, position in sides:
        texts = buckets.joined_texts(number, joined)
        place = _Place(position=position)
        blocks += buckets.split(place, texts) if split_lasting else _block(place, texts)
    notes: tuple[tuple[int, Sequence[str], Position], ...] = (
        (_NOTE_TOP, answer.authors_note_top, "author_note_top"),
        (_NOTE_BOTTOM, answer.authors_note_bottom, "author_note_bottom"),
    )
    for number, contents, position in notes:
        place = _Place(position=position, if_missing="leave_out")
        blocks += _block(place, buckets.texts(number, contents))
    blocks += _examples(answer, buckets)
    groups: tuple[DepthGroup | ActiveDepthGroup, ...] = answer.depth_groups
    for order, group in enumerate(groups):
        place = _Place(
            position="at_depth",
            depth=_depth(group.depth),
            role=_role(group.role),
            order=order,
        )
        blocks += _block(place, buckets.texts(_AT_DEPTH, group.entries))
    for name, contents in answer.outlets.items():
        place = _Place(position="outlet", outlet_name=name, if_missing="leave_out")
        blocks += _block(place, buckets.texts(_OUTLET, contents))
    return tuple(blocks)


def _examples(answer: SillyTavernResponse | Activation, buckets: _Buckets) -> Iterator[HostBlock]:
    """Yield the examples; those before the card's are prepended one by one, so in reverse."""
    before = [each.content for each in answer.examples if each.position == 0][::-1]
    after = [each.content for each in answer.examples if each.position == 1]
    positions: tuple[tuple[int, list[str], Position], ...] = (
        (_EXAMPLES_BEFORE, before, "before_examples"),
        (_EXAMPLES_AFTER, after, "after_examples"),
    )
    for number, contents, position in positions:
        for order, text in enumerate(buckets.texts(number, contents)):
            place = _Place(position=position, order=order, if_missing="after_character")
            yield from _block(place, [text])


def _block(
    place: _Place, texts: Sequence[_Text], lasting: Lasting | None = None
) -> Iterator[HostBlock]:
    """Yield the texts as one block, unless there are none."""
    if texts:
        yield HostBlock(
            sources=tuple(
                Source(entry.id, entry.reason) for each in texts for entry in each.entries
            ),
            text="\n".join(each.text for each in texts),
            position=place.position,
            depth=place.depth,
            role=place.role,
            order=place.order,
            outlet_name=place.outlet_name,
            lasting=lasting,
            if_missing=place.if_missing,
        )


class _Buckets:
    """Finds the entries from which the texts of an answer come."""

    def __init__(self, answer: SillyTavernResponse | Activation) -> None:
        active: tuple[_Entry, ...] = answer.activated
        # The order of the texts before they were divided by place.
        self._descending = sort_descending(
            active, lambda each: math.nan if each.order is None else each.order
        )
        self._waiting: dict[tuple[int | None, str], deque[_Entry]] = defaultdict(deque)
        for entry in active:
            self._waiting[entry.position, entry.content].append(entry)
        sticky = answer.timed_state.get("sticky")
        self._sticky = frozenset(sticky) if isinstance(sticky, Mapping) else frozenset()

    def texts(self, number: int, contents: Iterable[str]) -> list[_Text]:
        """Return the texts of a place, each with its entry if one matches."""
        return [_Text(text, self._take(number, text)) for text in contents if text]

    def joined_texts(self, number: int, joined: str) -> list[_Text]:
        """Return the texts of a joined text; the joined text alone if they don't match it."""
        if not joined:
            return []
        here = [each for each in self._descending if each.position == number and each.content]
        ascending = here[::-1]
        parts = [_Text(each.content, (each,)) for each in ascending]
        if "\n".join(each.text for each in parts) == joined:
            return parts
        return [_Text(joined, tuple(ascending))]

    def split(self, place: _Place, texts: Sequence[_Text]) -> Iterator[HostBlock]:
        """Yield one block of constant entries, one of sticky entries, and one of the others."""
        kinds: dict[Lasting | None, list[_Text]] = {"constant": [], "sticky": [], None: []}
        for each in texts:
            kinds[self._lasting(each.entries)].append(each)
        for lasting, group in kinds.items():
            # Entries of equal order are sorted by activation, which changes from turn to turn.
            steady = sorted(group, key=_steady) if lasting else group
            yield from _block(place, steady, lasting)

    def _take(self, number: int, text: str) -> tuple[_Entry, ...]:
        waiting = self._waiting[number, text]
        return (waiting.popleft(),) if waiting else ()

    def _lasting(self, entries: tuple[_Entry, ...]) -> Lasting | None:
        if len(entries) != 1:
            return None
        entry = entries[0]
        if entry.reason in _ALWAYS_IN:
            return "constant"
        # An entry that has just become sticky still has the reason of its activation.
        return "sticky" if entry.reason == "sticky" or entry.id in self._sticky else None


def _steady(each: _Text) -> tuple[float, str]:
    entry = each.entries[0]
    return entry.order or 0, entry.id


def _depth(depth: object) -> int:
    if isinstance(depth, int | float) and depth >= 0:
        return int(min(depth, _MAX_DEPTH))
    return _DEFAULT_DEPTH


def _role(role: object) -> Role:
    return _ROLES.get(role, "system") if isinstance(role, int | float) else "system"
