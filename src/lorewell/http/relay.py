"""An answer relayed from another server byte for byte, as long as the client is connected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from lorewell.app.ports import Upstream, UpstreamCall
from lorewell.errors import UpstreamUnavailableError
from lorewell.http.gateway_headers import relayed_headers
from lorewell.http.observe import BrokenOff, until_gone
from lorewell.http.reply_reader import ReplyReader
from lorewell.http.sockets import until_revoked

Check = Callable[[], Awaitable[object]]
Hear = Callable[[str], Awaitable[object]]

log: FilteringBoundLogger = structlog.get_logger("lorewell.gateway")


class Relay(Response):
    """Forwards a call and relays its answer. The call ends as soon as the client is gone."""

    def __init__(
        self,
        upstream: Upstream,
        call: UpstreamCall,
        headers: Mapping[str, str],
        check: Check,
        hear: Hear | None = None,
    ) -> None:
        """Create a relay; nothing is sent yet.

        Args:
            upstream: the server to call.
            call: the call.
            headers: headers of the answer, besides those of the upstream.
            check: raises once the client's key is revoked, which ends the answer.
            hear: takes the text of the reply, before the client has all of it.
        """
        super().__init__()
        self._upstream, self._call, self._check, self._hear = upstream, call, check, hear
        self._has_begun = False
        self._extra_headers = [
            (name.lower().encode(), value.encode()) for name, value in headers.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises:
            UpstreamUnavailableError: the upstream did not answer, and nothing was sent.
            BrokenOff: the upstream's answer broke off after this one had begun.
            ClientDisconnect: the client left.
        """
        relayed = asyncio.create_task(self._relay(scope, send))
        gone = asyncio.create_task(until_gone(receive))
        checking = asyncio.create_task(until_revoked(self._check))
        tasks = {relayed, gone, checking}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if relayed.done():
                await relayed
            elif self._has_begun:
                raise BrokenOff
            elif checking.done():
                await checking
            else:
                raise ClientDisconnect
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _relay(self, scope: Scope, send: Send) -> None:
        try:
            async with self._upstream.exchange(self._call) as answer:
                headers = [*relayed_headers(answer.headers), *self._extra_headers]
                self._has_begun = True
                await send(
                    {"type": "http.response.start", "status": answer.status, "headers": headers}
                )
                reader = None
                if self._hear is not None:
                    reader = ReplyReader(answer.status, answer.headers)
                async for piece in answer.pieces:
                    if reader is not None:
                        reader.feed(piece)
                    if reader is not None and reader.is_done:
                        await self._tell(reader)
                        reader = None
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                if reader is not None:
                    await self._tell(reader)
                await send({"type": "http.response.body"})
        except UpstreamUnavailableError as error:
            request_id = scope["state"]["request_id"]
            log.warning("upstream", code=error.code, detail=str(error), request_id=request_id)
            if self._has_begun:
                raise BrokenOff from None
            raise

    async def _tell(self, reader: ReplyReader) -> None:
        text = reader.text()
        if text is not None and self._hear is not None:
            await self._hear(text)
