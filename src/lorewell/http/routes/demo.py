"""A demo page: a chat with the books of a tenant. It changes neither books nor bindings."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from lorewell.app.bindings import get_bindings
from lorewell.app.turns import TenantLore
from lorewell.http.calls import OK, Call, answer, answer_json, reading, shared
from lorewell.http.limits import SMALL
from lorewell.http.openapi import documented, json_body
from lorewell.http.pages import answer_page
from lorewell.http.parameters import PromptId
from lorewell.model.assemble import DraftMessage
from lorewell.model.base import Contract
from lorewell.model.conversation import PromptName
from lorewell.model.parse import parse_model
from lorewell.model.scene import Scene
from lorewell.model.text import Identifier, Text
from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn import TurnError, TurnHost, TurnInput
from lorewell.upstreams import ScriptedModel

_PAGE = Path(__file__).with_name("demo.html")
_USER: Final = "demo-user"
_PART: Final = "You tell a story together with the user. 你和用户一起讲故事。"
_MAX_CONVERSATIONS: Final = 200
_MAX_MESSAGES: Final = 40

router = APIRouter(include_in_schema=False)


class DemoInput(Contract):
    """A message of a visitor, and what is known about its turn."""

    conversation_id: Annotated[Identifier, Field(min_length=1, max_length=200)]
    prompt_id: PromptName
    input: Annotated[Text, Field(min_length=1, max_length=8_000)]
    scene: Scene | None = None


class DemoChats:
    """The newest chats of visitors with their newest messages, in memory."""

    def __init__(self) -> None:
        self._chats: OrderedDict[str, list[DraftMessage]] = OrderedDict()
        self.model = ScriptedModel()
        self.hosts: dict[str, TurnHost] = {}

    def past(self, conversation_id: str) -> list[DraftMessage]:
        """Return the messages of a chat."""
        return [*self._chats.get(conversation_id, ())]

    def add(self, conversation_id: str, *messages: DraftMessage) -> None:
        """Append messages to a chat."""
        chat = self._chats.pop(conversation_id, [])
        self._chats[conversation_id] = [*chat, *messages][-_MAX_MESSAGES:]
        while len(self._chats) > _MAX_CONVERSATIONS:
            self._chats.popitem(last=False)


async def _visiting(request: Request) -> Call:
    """Return the request if it may read the books of the page."""
    return await reading(request, shared(request).settings.demo_tenant)


Visiting = Annotated[Call, Depends(_visiting)]


@router.get("/demo")
async def show_demo() -> Response:
    """Return the page."""
    return answer_page(_PAGE)


@router.get("/demo/api/bindings")
async def show_bindings(call: Visiting, prompt_id: PromptId) -> Response:
    """Return the bindings of a prompt."""
    return answer(await get_bindings(call.services, call.tenant_id, prompt_id))


@router.post(
    "/demo/api/chat", **documented(gives={OK: None}, takes=json_body(DemoInput, {}, SMALL))
)
async def chat(call: Visiting) -> Response:
    """Return the scripted model's reply, and the trace of its turn."""
    await call.need("write")  # SillyTavern's rules store timed state of the conversation
    body = await call.body(DemoInput)
    chats: DemoChats = call.request.app.state.demo
    reply_id = call.services.new_id()
    input_message = _message("input", {"role": "user", "content": body.input})
    given = TurnInput(
        request_id=reply_id,
        user_id=_USER,
        conversation_id=body.conversation_id,
        prompt_id=body.prompt_id,
        draft=(
            _message("template", {"role": "system", "content": _PART}),
            *chats.past(body.conversation_id),
            input_message,
        ),
        scene=body.scene,
    )
    async with _host(chats, call).begin(given) as turn:
        try:
            prepared = await turn.prepare(reply_id=reply_id)
        except TurnError as failed:
            raise failed.cause from failed
        reply = await chats.model(prepared)
    chats.add(
        body.conversation_id,
        _message("chat", input_message.message),
        _message("chat", reply.message),
    )
    document = {"reply_id": reply_id, "reply": reply.content, "trace": prepared.trace.members()}
    return answer_json(orjson.dumps(document))


def _host(chats: DemoChats, call: Call) -> TurnHost:
    host = chats.hosts.get(call.tenant_id)
    if host is None:
        config = WorldbookConfig(tenant_id=call.tenant_id)
        lore = TenantLore(call.services, call.tenant_id)
        host = TurnHost(config, lore, counter=call.services.counter)
        chats.hosts[call.tenant_id] = host
    return host


def _message(kind: str, message: Mapping[str, Any]) -> DraftMessage:
    return parse_model(DraftMessage, {"kind": kind, "message": dict(message)})
