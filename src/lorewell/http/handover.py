"""Passes connections with large requests to another process.

Receiving, parsing and validating a large body takes milliseconds at a time. Another process does
it, so that small requests of other callers never wait for that.
"""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import suppress
from typing import Final

_MARK: Final = b"\0"  # file descriptors travel with a byte
_FILES: Final = 2  # the connection, and a file with the bytes read from it


class Handover:
    """The sending end: one for each process that accepts connections.

    Args:
        path: of the other process's socket.
        most_bytes: size of the largest body that is not handed over.
    """

    def __init__(self, path: str, most_bytes: int) -> None:
        self._path, self.most_bytes = path, most_bytes
        self._line: socket.socket | None = None

    def pass_on(self, connection: int, data: bytes) -> bool:
        """Send a connection and the bytes already read from it; return whether that worked.

        The caller closes its own copy of the connection. False means that the other process takes
        no more for now.
        """
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            files = [connection, file.fileno()]
            try:
                socket.send_fds(self._connected(), [_MARK], files)
            except BlockingIOError:
                return False
            except OSError:  # the other process ended, and another one has begun
                self.close()
                with suppress(OSError):
                    socket.send_fds(self._connected(), [_MARK], files)
                    return True
                return False
        return True

    def _connected(self) -> socket.socket:
        if self._line is None:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.settimeout(0)
                line.connect(self._path)
            except OSError:
                line.close()
                raise
            self._line = line
        return self._line

    def close(self) -> None:
        """Close the line to the other process."""
        if self._line is not None:
            self._line.close()
            self._line = None


def receive(line: socket.socket) -> tuple[socket.socket, bytes] | None:
    """Return the next connection and the bytes already read from it; None at the line's end.

    Raises:
        BlockingIOError: nothing has come.
    """
    data, files, _, _ = socket.recv_fds(line, len(_MARK), _FILES)
    if not data or len(files) != _FILES:
        for each in files:
            os.close(each)
        return None
    with os.fdopen(files[1], "rb") as file:
        file.seek(0)
        return socket.socket(fileno=files[0]), file.read()
