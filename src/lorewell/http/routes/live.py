"""Live events of a prompt's selections (docs/live.md)."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response, WebSocket

from lorewell.app.live.hub import LiveHub
from lorewell.app.live.subscription import SlowConsumer, Subscription, in_pieces
from lorewell.app.services import Services
from lorewell.errors import LiveOffError, TooManySocketsError
from lorewell.http.calls import OK, Reading
from lorewell.http.events import MEDIA_TYPE
from lorewell.http.openapi import documented
from lorewell.http.parameters import LastEventId, LastEventIdHeader, PromptId, TenantId
from lorewell.http.sockets import Socket, SocketClosed, attend
from lorewell.http.streams import LiveStream

TAG = "live"
SLOW_CODE, SLOW = 4_408, "slow_consumer"
SEND_S = 10.0

router = APIRouter()


@router.websocket("/v1/live")
async def watch_prompt(
    websocket: WebSocket,
    tenant_id: TenantId,
    prompt_id: PromptId,
    last_event_id: LastEventId = None,
    last_event_id_header: LastEventIdHeader = None,
) -> None:
    """Send the live events of a prompt's selections, from now or from an event on."""
    last_id = last_event_id if last_event_id_header is None else last_event_id_header

    async def work(socket: Socket) -> None:
        await socket.open("read", tenant_id, listens=False)
        hub = _hub(socket.services)
        async with hub.subscribe(tenant_id, prompt_id, last_id) as subscription:
            await _send_frames(socket, subscription)

    await attend(websocket, work)


async def _send_frames(socket: Socket, subscription: Subscription) -> None:
    try:
        while True:
            for number, piece in enumerate(in_pieces(await subscription.take())):
                if number:
                    await asyncio.sleep(0)  # lets the transport see whether the client reads
                async with asyncio.timeout(SEND_S):
                    await socket.send_all(piece)
    except (SlowConsumer, TimeoutError):
        raise SocketClosed(SLOW_CODE, SLOW) from None


@router.get(
    "/v1/live",
    name="live",
    **documented(
        LiveOffError,
        TooManySocketsError,
        gives={OK: {MEDIA_TYPE: {"schema": {"type": "string"}}}},
    ),
)
async def stream_prompt(
    call: Reading,
    prompt_id: PromptId,
    last_event_id: LastEventId = None,
    last_event_id_header: LastEventIdHeader = None,
) -> Response:
    """Stream the live events of a prompt's selections as server-sent events.

    The same path is also a WebSocket with the same frames.
    """
    last_id = last_event_id if last_event_id_header is None else last_event_id_header
    slot = call.request.app.state.slots.take(call.tenant_id)
    feed = _hub(call.services).subscribe(call.tenant_id, prompt_id, last_id)

    async def check() -> None:
        await call.need("read")

    return LiveStream(feed, slot, check, send_s=SEND_S)


def _hub(services: Services) -> LiveHub:
    if services.live is None:
        raise LiveOffError("The live channel of this service is off; see LOREWELL_LIVE.")
    return services.live
