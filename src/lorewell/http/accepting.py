"""Servers whose connections come from a listening socket, many in each pass of the event loop."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any, Final

import uvicorn

_PER_PASS: Final = 64


def copies(listener: socket.socket) -> list[socket.socket]:
    """Return a listening socket and copies of it.

    The event loop accepts one connection from each in a pass. With a single one, hundreds of
    connections at once would delay the next client by as many passes.
    """
    more = (socket.socket(fileno=os.dup(listener.fileno())) for _ in range(_PER_PASS - 1))
    return [listener, *more]


class AcceptingServer(uvicorn.Server):
    """A server that accepts many connections in each pass of the event loop."""

    def make_protocol(self, **arguments: Any) -> asyncio.Protocol:  # noqa: ANN401
        """Return the protocol of a new connection, with more arguments for `BoundedProtocol`."""
        make: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = make(
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            **arguments,
        )
        return protocol

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and listen."""
        await super().startup(sockets)
        if sockets is not None:
            return
        loop = asyncio.get_running_loop()
        for server in tuple(self.servers):
            for listener in server.sockets:
                for copy in copies(listener)[1:]:
                    more = await loop.create_server(
                        self.make_protocol, sock=copy, backlog=self.config.backlog
                    )
                    self.servers.append(more)
