"""The transport of a connection: joins writes, and drops clients that do not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

CHECK_READER_S = 10.0
LEAST_READ_BYTES = 16_384  # the least a client has to read in that time


class BoundedTransport:
    """A transport that joins small writes, can stop reading, and drops clients that do not read.

    The head and the body of an answer would be two system calls, which take longer than anything
    else in a small answer.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self.on_write: Callable[[], object] | None = None  # called once, at the next write
        self._unsent: list[bytes] = []
        self._is_paused = self._is_held = False
        self._check: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        """Send the data at the end of this pass of the event loop."""
        if self.on_write is not None:
            on_write, self.on_write = self.on_write, None
            on_write()
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(data)

    def close(self) -> None:
        """Close the connection once the client has read the written data, or stops reading."""
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self.watch_reader()

    def end(self, data: bytes, seconds: float) -> None:
        """Send the last data, read no more, and close the connection after some seconds.

        Closing at once, while the client still sends, would reset the connection, and the client
        could lose the data. It could also connect again at once.
        """
        self.hold_reading(is_held=True)
        if not self._transport.is_closing():
            self.write(data)
            self._flush()
            if self._transport.can_write_eof():
                self._transport.write_eof()
        self._loop.call_later(seconds, self.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        self.stop_watching()
        self._transport.abort()

    def pause_reading(self) -> None:
        """Stop reading, for the protocol."""
        self._is_paused = True
        self._update()

    def resume_reading(self) -> None:
        """Read again, for the protocol."""
        self._is_paused = False
        self._update()

    def hold_reading(self, *, is_held: bool) -> None:
        """Stop reading or read again, independently of the protocol: too much input waits."""
        if is_held is not self._is_held:
            self._is_held = is_held
            self._update()

    def watch_reader(self) -> None:
        """Close the connection if the client reads too little from now on."""
        if self._check is None:
            size = self._transport.get_write_buffer_size()
            self._check = self._loop.call_later(CHECK_READER_S, self._check_reader, size)

    def stop_watching(self) -> None:
        """Stop the check of the client's reading: it has read all written data."""
        if self._check is not None:
            self._check.cancel()
            self._check = None

    def _check_reader(self, size_before: int) -> None:
        self._check = None
        size = self._transport.get_write_buffer_size()
        if size > size_before - LEAST_READ_BYTES:
            self._transport.abort()
        else:
            self.watch_reader()

    def _update(self) -> None:
        wanted = not (self._is_paused or self._is_held)
        if self._transport.is_closing() or self._transport.is_reading() is wanted:
            return
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _flush(self) -> None:
        unsent, self._unsent = b"".join(self._unsent), []
        if unsent and not self._transport.is_closing():
            self._transport.write(unsent)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  any attribute of a transport
        return getattr(self._transport, name)
