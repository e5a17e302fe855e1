"""The live channel over HTTP: server-sent events, as long as the client is connected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lorewell.app.live.subscription import SlowConsumer, Subscription, in_pieces
from lorewell.errors import LorewellError
from lorewell.http.events import MEDIA_TYPE, QUIET_SECONDS, STILL_HERE, event
from lorewell.http.observe import BrokenOff, until_gone
from lorewell.http.protocol import STOPPING
from lorewell.http.sockets import until_revoked

Feed = AbstractAsyncContextManager[Subscription]
Slot = AbstractContextManager[None]
Check = Callable[[], Awaitable[object]]


class LiveStream(Response):
    """Sends the frames of a subscription until the client leaves or the service stops."""

    media_type = MEDIA_TYPE

    def __init__(self, feed: Feed, slot: Slot, check: Check, *, send_s: float) -> None:
        """Create a stream; the subscription has not begun yet.

        Args:
            feed: the subscription.
            slot: one of the slots that sockets and streams share.
            check: raises once the client's key is revoked, which ends the stream.
            send_s: seconds that a client has to read a frame.
        """
        super().__init__()
        self._feed, self._slot, self._check, self._send_s = feed, slot, check, send_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises:
            LorewellError: there is no slot or no subscription, and nothing was sent.
            BrokenOff: the stream has ended.
        """
        stopping = scope["state"][STOPPING] = asyncio.Event()
        with self._slot:
            async with self._feed as subscription:
                sending = asyncio.create_task(self._send_frames(subscription, send))
                checking = asyncio.create_task(until_revoked(self._check))
                ends = {
                    sending,
                    checking,
                    asyncio.create_task(until_gone(receive)),
                    asyncio.create_task(stopping.wait()),
                }
                try:
                    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                    if sending.done():
                        sending.result()
                finally:
                    for task in ends:
                        task.cancel()
                    await asyncio.gather(*ends, return_exceptions=True)
                await self._send_revocation(checking, send)
        raise BrokenOff  # an endless answer can only end with its connection

    async def _send_revocation(self, checking: asyncio.Task[None], send: Send) -> None:
        """Send the reason if the client's key was revoked."""
        if not checking.cancelled() and isinstance(error := checking.exception(), LorewellError):
            await self._end(error.code, send)

    async def _send_frames(self, subscription: Subscription, send: Send) -> None:
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            while True:
                for data in await _next(subscription):
                    async with asyncio.timeout(self._send_s):
                        await send({"type": "http.response.body", "body": data, "more_body": True})
                        await asyncio.sleep(0)
        except SlowConsumer:
            await self._end("slow_consumer", send)
        except TimeoutError:
            return

    async def _end(self, reason: str, send: Send) -> None:
        data = event("end", f'{{"type":"end","reason":"{reason}"}}')
        with suppress(TimeoutError):
            async with asyncio.timeout(self._send_s):
                await send({"type": "http.response.body", "body": data, "more_body": True})


async def _next(subscription: Subscription) -> Sequence[bytes]:
    try:
        async with asyncio.timeout(QUIET_SECONDS):
            frames = await subscription.take()
    except TimeoutError:
        return (STILL_HERE,)
    return [
        b"".join(event(each.type, each.text, each.id) for each in piece)
        for piece in in_pieces(frames)
    ]
