"""The socket on which the front end of SillyTavern_replica chats."""

from __future__ import annotations

import asyncio
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
    """Answer each message with the entries that are active, and with a reply if there is a model.

    One message is answered after the other; one that can't be answered closes nothing.
    """
    await attend(websocket, _talk)


async def _talk(socket: Socket) -> None:
    await socket.open("read", socket.shared.settings.replica_tenant)
    while True:
        text = await socket.receive()
        try:
            await _answer(socket, await _read(text, socket.path["role"]))
        except LorewellError as error:
            if status_of(error) >= INTERNAL_ERROR:
                socket.log(error)
            await socket.tell(error)


async def _read(text: str, role: str) -> ReplicaChat:
    if len(text) > _LARGE_CHARS:
        return await asyncio.to_thread(read_frame, text, role)
    return read_frame(text, role)


async def _answer(socket: Socket, chat: ReplicaChat) -> None:
    found = await activate_chat(socket.services, socket.shared.settings.replica_tenant, chat)
    socket.shared.metrics.activated(found)
    await socket.send(found.message().decode())
    async with aclosing(reply(socket.services, chat, found)) as frames:
        async for frame in frames:
            await socket.send(frame)
