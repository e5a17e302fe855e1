"""Reads the text of a reply while its bytes are relayed."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from lorewell.app.ports import Header
from lorewell.errors import UpstreamInvalidError
from lorewell.upstreams.events import EventReader
from lorewell.upstreams.replies import ChatDelta, ChatReply, joined, read_delta, read_reply

MAX_BYTES: Final = 2 * 1024 * 1024
_DONE: Final = b"[DONE]"
_OK: Final = 200
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS


class ReplyReader:
    """Collects the reply of one answer, whole or as a stream of events.

    An answer that is an error, too long, broken off or compressed in another way than gzip or
    deflate has no text.
    """

    def __init__(self, status: int, headers: Iterable[Header]) -> None:
        """Take the status and the headers of an answer."""
        named = {name: value.lower() for name, value in headers}
        encoding = named.get(b"content-encoding", b"identity")
        self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB) if encoding != b"identity" else None
        self._is_readable = status == _OK and encoding in (b"identity", b"gzip", b"deflate")
        kind = named.get(b"content-type", b"")
        self._events = EventReader() if kind.startswith(b"text/event-stream") else None
        length = named.get(b"content-length", b"")
        self._left = int(length) if length.isdigit() else None
        self._pieces: list[bytes] = []
        self._deltas: list[ChatDelta] = []
        self._size = 0
        self.is_done = False

    def feed(self, piece: bytes) -> None:
        """Take the next bytes; afterwards `is_done` says whether the reply is complete."""
        if self._left is not None:
            self._left -= len(piece)
        if self._is_readable:
            try:
                self._read(piece)
            except (UpstreamInvalidError, zlib.error):
                self._is_readable = False
        self.is_done = self.is_done or self._left == 0

    def _read(self, piece: bytes) -> None:
        if self._inflate is not None:
            piece = self._inflate.decompress(piece, MAX_BYTES)
        self._size += len(piece)
        if self._size > MAX_BYTES or (self._inflate is not None and self._inflate.unconsumed_tail):
            self._is_readable = False
            self._pieces, self._deltas = [], []
        elif self._events is None:
            self._pieces.append(piece)
        else:
            for event in self._events.feed(piece):
                if event == _DONE:
                    self.is_done = True
                else:
                    self._deltas.append(read_delta(event))

    def text(self) -> str | None:
        """Return the text of the reply; None if there is none, or it calls tools."""
        reply = ChatReply()
        if self._is_readable and self._events is not None:
            reply = joined(self._deltas)
        elif self._is_readable:
            try:
                reply = read_reply(b"".join(self._pieces))
            except UpstreamInvalidError:
                return None
        return None if reply.tool_calls or not reply.content.strip() else reply.content
