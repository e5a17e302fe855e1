"""The lines of a conversation that are known, by keyed hashes: a tree, bounded in size.

Source: docs/rules/host.md §17.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Self

LINE_BYTES: Final = 8
SPEAKER_BYTES: Final = 2
CHAIN_BYTES: Final = 16
MAX_LINES: Final = 2_000

_RECORD: Final = struct.Struct(f"<{LINE_BYTES}s{SPEAKER_BYTES}s{CHAIN_BYTES}sIIIB")
_REPLY, _TURN = 1, 2


class KnownLine(NamedTuple):
    """A known line.

    Attributes:
        line, speaker: its keyed hashes.
        chain: the hash of all lines of the chat up to it.
        number: its number in the chat, from 0.
        parent: index of the line before it; None if it is the first or the other is forgotten.
        touched: number of the turn that last sent it.
        is_reply: whether it may be the assistant's.
        ends_turn: whether a request ended with it.
    """

    line: bytes
    speaker: bytes
    chain: bytes
    number: int
    parent: int | None
    touched: int
    is_reply: bool
    ends_turn: bool


@dataclass(frozen=True)
class KnownLines:
    """The known lines of a conversation; each comes after its parent."""

    lines: Sequence[KnownLine] = ()

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Return what `dump` wrote."""
        return cls(
            [
                KnownLine(
                    line,
                    speaker,
                    chain,
                    number,
                    parent - 1 if parent else None,
                    touched,
                    bool(flags & _REPLY),
                    bool(flags & _TURN),
                )
                for line, speaker, chain, number, parent, touched, flags in _RECORD.iter_unpack(
                    body
                )
            ]
        )

    def dump(self) -> bytes:
        """Return the lines as bytes, 39 for each."""
        return b"".join(
            _RECORD.pack(
                each.line,
                each.speaker,
                each.chain,
                each.number,
                0 if each.parent is None else each.parent + 1,
                each.touched,
                _REPLY * each.is_reply | _TURN * each.ends_turn,
            )
            for each in self.lines
        )

    @cached_property
    def by_chain(self) -> dict[bytes, int]:
        """The index of each line by its chain."""
        return {each.chain: index for index, each in enumerate(self.lines)}

    @cached_property
    def by_line(self) -> frozenset[bytes]:
        """The hashes of all lines."""
        return frozenset(each.line for each in self.lines)

    @property
    def last_turn(self) -> KnownLine | None:
        """The line that the last request ended with."""
        ends = (each for each in self.lines if each.ends_turn)
        return max(ends, key=lambda each: (each.touched, each.number), default=None)

    def newest(self) -> KnownLines:
        """Return the newest 2,000; those sent longest ago are forgotten."""
        lines = self.lines
        if len(lines) <= MAX_LINES:
            return self
        order = sorted(
            range(len(lines)), key=lambda each: (lines[each].touched, lines[each].number)
        )
        kept = sorted(order[-MAX_LINES:])
        places = {index: place for place, index in enumerate(kept)}
        return KnownLines(
            [
                lines[index]._replace(
                    parent=None if (parent := lines[index].parent) is None else places.get(parent)
                )
                for index in kept
            ]
        )
