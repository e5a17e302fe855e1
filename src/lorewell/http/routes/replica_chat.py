"""The chat socket of SillyTavern_replica's front end."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from fastapi import APIRouter, WebSocket

from lorewell.app.replica.chat import ReplicaChat, activate_chat, read_frame, reply
from lorewell.errors import LorewellError
from lorewell.http.problems import INTERNAL_ERROR, status_of
from lorewell.http.sockets import Socket, attend

_LARGE_CHARS: Final = 32_768

router = APIRouter()


@router.websocket("/api/chat/{role}/{chat}/ws")
async def chat_with_role(websocket: WebSocket) -> None:
    """Answer each message with the active entries, and with a reply if there is a model.

    Messages are answered one by one. A message that fails does not close the socket.
    """
    await attend(websocket, _talk)


async def _talk(socket: Socket) -> None:
    await socket.open("read", socket.shared.settings.replica_tenant)
    while True:
        text = await socket.receive()
        try:
            await _answer(socket, await _read(socket, text))
        except LorewellError as error:
            if status_of(error) >= INTERNAL_ERROR:
                socket.log(error)
            await socket.send_error(error)


async def _read(socket: Socket, text: str) -> ReplicaChat:
    role = socket.path["role"]
    if len(text) <= _LARGE_CHARS:
        return read_frame(text, role)
    tenant_id = socket.shared.settings.replica_tenant
    return await socket.services.computing.run(tenant_id, lambda: read_frame(text, role))


async def _answer(socket: Socket, chat: ReplicaChat) -> None:
    services, tenant_id = socket.services, socket.shared.settings.replica_tenant
    found = await activate_chat(services, tenant_id, chat)
    socket.shared.metrics.activated(found)
    message = await services.computing.finish(tenant_id, found.message)
    await socket.send(message.decode())
    async with aclosing(reply(services, tenant_id, chat, found)) as frames:
        async for frame in frames:
            await socket.send(frame)
