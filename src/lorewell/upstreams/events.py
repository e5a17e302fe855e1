"""A parser of server-sent events."""

from __future__ import annotations

import re
from collections.abc import Iterator

_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR at the end may be the first half of CR LF


class EventReader:
    r"""Assembles events from pieces of any length.

    It ignores comments, names and ids of events: chat completions use none of them.

    Source: WHATWG HTML, section 9.2.6, for the field `data`.

    >>> reader = EventReader()
    >>> [*reader.feed(b": hello\n\ndata: a\ndata: b\r\n")], [*reader.feed(b"\r\ndata:c")]
    ([], [b'a\nb'])
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._lines: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the data of every event that ends in this piece."""
        self._rest.append(piece)
        if b"\n" not in piece and b"\r" not in b"".join(self._rest[-2:]):
            return  # do not scan a long line again for each piece
        *lines, rest = _END.split(b"".join(self._rest))
        self._rest = [rest]
        for line in lines:
            if line.startswith(b"data:"):
                self._lines.append(line[5:].removeprefix(b" "))
            elif line == b"data":
                self._lines.append(b"")
            elif not line and self._lines:
                event, self._lines = b"\n".join(self._lines), []
                yield event
