"""Finds the place of a chat in a conversation when only its last lines were sent.

A conversation is a tree of lines: a swipe, an edit or a branch adds another child. A line is known
by a keyed hash of its speaker and text, and by its chain, the hash of all lines up to it. So equal
chains are equal beginnings, and the state after a turn can be kept under the chain of its last
line.

Source: docs/rules/host.md §17.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from lorewell.host.known_lines import CHAIN_BYTES, LINE_BYTES, SPEAKER_BYTES, KnownLine, KnownLines
from lorewell.model.activate import SillyTavernRequest

ROOT: Final = bytes(CHAIN_BYTES)
_FORGOTTEN: Final = b"\xff" * CHAIN_BYTES  # the chain of lines that are no longer known
_MIN_OVERLAP: Final = 2
_SURE_OVERLAP: Final = 3  # a whole beginning of so many lines is not compared with other places
_MAX_HEAD: Final = 8


class SentLine(NamedTuple):
    """A line of a request: the speaker, the text, and whether it may be the assistant's."""

    speaker: str
    text: str
    is_reply: bool


class HashedLine(NamedTuple):
    """A line by its keyed hashes."""

    line: bytes
    speaker: bytes
    is_reply: bool


def lines_of(request: SillyTavernRequest) -> list[SentLine]:
    """Return the lines of a chat without roles: all but those of `macros.user` may be replies."""
    user = request.user
    return [
        SentLine(line.name or "", line.content, not line.name or line.name != user)
        for line in request.chat
    ]


def hash_lines(key: bytes, lines: Sequence[SentLine]) -> list[HashedLine]:
    """Return the lines by their hashes under a secret key of 1 to 64 bytes.

    Blanks around a text do not count: clients trim replies.
    """
    speakers = {
        each: _keyed(key, SPEAKER_BYTES, f"{each[0]}\0{each[1]}".encode())
        for each in {(line.speaker, line.is_reply) for line in lines}
    }
    return [
        HashedLine(
            _keyed(key, LINE_BYTES, f"{speaker}\0{text.strip()}".encode()),
            speakers[speaker, is_reply],
            is_reply,
        )
        for speaker, text, is_reply in lines
    ]


def _keyed(key: bytes, size: int, message: bytes) -> bytes:
    return hashlib.blake2b(message, digest_size=size, key=key).digest()


def chain(before: bytes, line: bytes) -> bytes:
    """Return the chain of a line that follows another chain."""
    return hashlib.blake2b(before + line, digest_size=CHAIN_BYTES).digest()


def chains_from(before: bytes, lines: Sequence[HashedLine]) -> list[bytes]:
    """Return the chains after the first 0, 1, 2, …, all lines."""
    chains = [before]
    for each in lines:
        before = chain(before, each.line)
        chains.append(before)
    return chains


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a request's lines in a conversation.

    Attributes:
        first: number of the first sent line, from 0.
        head: how many of the first sent lines stand for older ones, such as a summary.
        chains: the chains before and after each line that follows the head.
        overlap: number of sent lines in a row that were known.
        parent: index of the known line before the first one after the head; None if unknown.
    """

    first: int
    head: int
    chains: tuple[bytes, ...]
    overlap: int
    parent: int | None = None

    @property
    def length(self) -> int:
        """The number of messages of the whole chat."""
        return self.first + self.head + len(self.chains) - 1

    @property
    def end(self) -> bytes:
        """The chain of the whole chat."""
        return self.chains[-1]

    def beginnings(self, known: KnownLines) -> Iterator[bytes]:
        """Yield the chains of the shorter beginnings of the chat, longest first."""
        yield from self.chains[-2:0:-1]
        if len(self.chains) > 1 and self.chains[0] == ROOT:
            yield ROOT
        index = self.parent
        while index is not None:
            yield known.lines[index].chain
            index = known.lines[index].parent


def start_over(lines: Sequence[HashedLine]) -> Place:
    """Return the place of a chat that begins with the first sent line."""
    return Place(first=0, head=0, chains=tuple(chains_from(ROOT, lines)), overlap=0)


def align(
    known: KnownLines,
    lines: Sequence[HashedLine],
    *,
    kept: Mapping[bytes, int] = MappingProxyType({}),
    strict: bool = False,
) -> Place | None:
    """Return the place of the sent lines in a conversation; None if there is none.

    A chat that begins as the conversation does is at its beginning. Else the only longest run of
    known lines decides, if it holds two lines or more, one of them the assistant's. Runs that begin
    with the first sent line come first; else the lines before the run, at most 8, stand for
    older ones.

    Args:
        known: the lines of the conversation.
        lines: the sent lines, oldest first.
        kept: chains of the conversation whose lines may be forgotten, with the length of the chat.
        strict: a common beginning of one line is none.
    """
    begun = start_over(lines)
    same = _common_beginning(known, begun, kept)
    if same < _SURE_OVERLAP:
        run = _longest_run(known, lines, 0)
        if run is not None and run.length > same:
            return _place_of(known, lines, run)
    if _counts(lines, 0, same):
        return _at_beginning(known, begun, same, kept)
    best = _run_behind_head(known, lines)
    place = None if best is None else _place_of(known, lines, best)
    is_elsewhere = place is not None and not place.head and place.chains[1] in known.by_chain
    if same and not is_elsewhere and (place is not None or not strict):
        return _at_beginning(known, begun, same, kept)
    return place


def _at_beginning(known: KnownLines, begun: Place, same: int, kept: Mapping[bytes, int]) -> Place:
    index = known.by_chain.get(begun.chains[same])
    length = kept[begun.chains[same]] if index is None else known.lines[index].number + 1
    return replace(begun, first=length - same, overlap=same)


def _common_beginning(known: KnownLines, begun: Place, kept: Mapping[bytes, int]) -> int:
    """Return the number of first sent lines that a known chat begins with."""
    numbers = range(len(begun.chains) - 1, 0, -1)
    found = (each for each in numbers if begun.chains[each] in known.by_chain)
    return max(next(found, 0), next((each for each in numbers if begun.chains[each] in kept), 0))


class _Run(NamedTuple):
    """Known lines in a row: the index of the last one, and the sent lines from `begin` on."""

    last: int
    begin: int
    length: int


def _counts(lines: Sequence[HashedLine], begin: int, length: int) -> bool:
    return length >= _MIN_OVERLAP and any(each.is_reply for each in lines[begin : begin + length])


def _longest_run(known: KnownLines, lines: Sequence[HashedLine], begin: int) -> _Run | None:
    """Return the only longest run of known lines that equals the sent lines from `begin` on.

    Shift-and: bit i of a known line says that a path ending with it equals the sent lines from
    `begin` to `begin` + i. So repeated lines cost no more than others.
    """
    if lines[begin:] and lines[begin].line not in known.by_line:
        return None
    masks: dict[bytes, int] = {}
    for index, each in enumerate(lines[begin:]):
        masks[each.line] = masks.get(each.line, 0) | 1 << index
    found: list[int] = []
    longest, ends = 0, []
    for index, node in enumerate(known.lines):
        mask = masks.get(node.line, 0)
        run = mask and ((found[node.parent] << 1 | 1) if node.parent is not None else 1) & mask
        found.append(run)
        length = run.bit_length()
        if length > longest:
            longest, ends = length, [index]
        elif length == longest and length:
            ends.append(index)
    if not _counts(lines, begin, longest):
        return None
    if len({known.lines[end].number for end in ends}) > 1:
        return None
    newest = max(ends, key=lambda end: (known.lines[end].touched, end))
    return _Run(newest, begin, longest)


def _run_behind_head(known: KnownLines, lines: Sequence[HashedLine]) -> _Run | None:
    """Return the longest run that begins with one of the next sent lines, the first one's first."""
    best: _Run | None = None
    for begin in range(1, min(_MAX_HEAD + 1, len(lines))):
        if best is not None and best.length >= len(lines) - begin:
            break
        run = _longest_run(known, lines, begin)
        if run is not None and (best is None or run.length > best.length):
            best = run
    return best


def _place_of(known: KnownLines, lines: Sequence[HashedLine], run: _Run) -> Place:
    first = known.lines[run.last].number - run.begin - run.length + 1
    if first <= 0 and run.begin:  # the beginning of the chat was changed
        return replace(start_over(lines), overlap=run.length)
    path = _path_to(known, run.last, run.begin + run.length)
    head = _head(lines, path)
    same = 0  # lines after the head that are those of the path
    for sent, node in zip(lines[head:], path[head:], strict=False):
        if node is None or node.line != sent.line:
            break
        same += 1
    here = path[head]
    parent = None if here is None else here.parent
    unknown = _FORGOTTEN if first else ROOT
    before = unknown if parent is None else known.lines[parent].chain
    shared = [each.chain for each in path[head : head + same] if each is not None]
    rest = chains_from(shared[-1] if shared else before, lines[head + same :])
    return Place(
        first=first,
        head=head,
        chains=(before, *shared, *rest[1:]),
        overlap=run.length,
        parent=parent,
    )


def _path_to(known: KnownLines, last: int, length: int) -> list[KnownLine | None]:
    """Return the known lines up to one of them, oldest first; None where they are forgotten."""
    path: list[KnownLine | None] = []
    index: int | None = last
    for _ in range(length):
        node = None if index is None else known.lines[index]
        path.append(node)
        index = None if node is None else node.parent
    return path[::-1]


def _head(lines: Sequence[HashedLine], path: Sequence[KnownLine | None]) -> int:
    """Return how many of the first lines stand for older ones, and are not edited lines.

    The line before the first known one is an edited one if it has the speaker of the line at its
    place: alone, or behind lines of other speakers, which a summary has.
    """
    both = list(zip(lines, path, strict=False))
    first = next(
        (at for at, (sent, was) in enumerate(both) if was is not None and was.line == sent.line), 0
    )
    others = [
        at
        for at, (sent, was) in enumerate(both[:first])
        if was is None or was.speaker != sent.speaker
    ]
    if others:
        return others[-1] + 1
    return 0 if first == 1 else first


def is_continued(known: KnownLines, place: Place) -> bool:
    """Return whether the chat holds the line that the last request ended with."""
    last = known.last_turn
    return last is None or last.chain in place.chains or last.chain in place.beginnings(known)


def branch_of(known: KnownLines, place: Place) -> tuple[KnownLines, Place]:
    """Return the known lines before those that were sent, without other branches.

    The place is that of the sent lines among them.
    """
    path = []
    index = place.parent
    while index is not None:
        path.append(known.lines[index])
        index = known.lines[index].parent
    path.reverse()
    alone = [each._replace(parent=at - 1 if at else None) for at, each in enumerate(path)]
    return KnownLines(alone), replace(place, parent=len(alone) - 1 if alone else None)


def extend(
    known: KnownLines, place: Place, lines: Sequence[HashedLine], *, ends_turn: bool = True
) -> KnownLines:
    """Return the known lines with the sent ones; the lines sent longest ago are forgotten.

    Args:
        known: the lines of the conversation.
        place: of the sent lines, by `align` or `start_over`.
        lines: the sent lines.
        ends_turn: whether a request ended with them, and not only the reply to it.
    """
    found = list(known.lines)
    by_chain = dict(known.by_chain)
    turn = 1 + max((each.touched for each in found), default=0)
    parent = by_chain.get(place.chains[0])
    number = place.first + place.head
    for sent, here in zip(lines[place.head :], place.chains[1:], strict=True):
        index = by_chain.setdefault(here, len(found))
        is_new = index == len(found)
        ended = not is_new and found[index].ends_turn
        line = KnownLine(
            *sent[:2], here, max(number, 0), parent, turn, sent.is_reply, ends_turn=ended
        )
        if is_new:
            found.append(line)
        else:
            found[index] = found[index]._replace(touched=turn)
        parent, number = index, number + 1
    if ends_turn and parent is not None:
        found[parent] = found[parent]._replace(ends_turn=True)
    return KnownLines(found).newest()
