"""The gateway: adds lore to the chat completions of any client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

import orjson
from fastapi import APIRouter, Header, Request, Response

from lorewell.app.access import Caller, enter
from lorewell.app.gateway.chat import ChatTurn, enrich, list_prompts, place_note
from lorewell.app.gateway.scenes import MEMBER, ClientScene
from lorewell.app.ports import UpstreamCall
from lorewell.app.runtime.gateway import Gateway
from lorewell.app.services import Services
from lorewell.app.sillytavern.activation import Hear
from lorewell.errors import (
    BindingInvalidError,
    BookNotFoundError,
    BudgetExceededError,
    ContextOverflowError,
    GatewayOffError,
    PlacementFailedError,
    RequiredConflictError,
    RequiredDependencyUnavailableError,
    RequiredPlacementUnsupportedError,
    RevisionNotFoundError,
    SnapshotTooLargeError,
    TooExpensiveError,
    UpstreamTimeoutError,
    UpstreamUnavailableError,
)
from lorewell.http import gateway_headers as names
from lorewell.http.bodies import naming_the_limit, read_body
from lorewell.http.calls import OK, answer_json, shared
from lorewell.http.completion_body import ClientMessages, Completion
from lorewell.http.held import TENANT
from lorewell.http.limits import BOOKS
from lorewell.http.openapi import any_body, documented
from lorewell.http.relay import Relay
from lorewell.model.scene import Scene

TAG = "gateway"
_SMALL_BYTES = 32_768
_MAX_DELAY_S = 0.5
_UPSTREAM = (GatewayOffError, UpstreamUnavailableError, UpstreamTimeoutError)
_ANY_ANSWER = {
    "application/json": {"schema": {}},
    "text/event-stream": {"schema": {"type": "string"}},
}

_Prompt = Annotated[
    str | None,
    Header(
        alias=names.PROMPT, description="The prompt whose books apply; UTF-8 or percent-encoded."
    ),
]
_Conversation = Annotated[
    str | None,
    Header(alias=names.CONVERSATION, description="The conversation whose timed state applies."),
]
_Char = Annotated[str | None, Header(alias=names.CHAR, description="The value of {{char}}.")]
_User = Annotated[str | None, Header(alias=names.USER, description="The value of {{user}}.")]
_Key = Annotated[
    str | None,
    Header(
        alias=names.UPSTREAM_AUTHORIZATION,
        description="The `Authorization` header for the model server.",
    ),
]

router = APIRouter()


@router.post(
    "/gateway/v1/chat/completions",
    **documented(
        *_UPSTREAM,
        BindingInvalidError,
        BookNotFoundError,
        RevisionNotFoundError,
        SnapshotTooLargeError,
        TooExpensiveError,
        RequiredPlacementUnsupportedError,
        RequiredDependencyUnavailableError,
        RequiredConflictError,
        BudgetExceededError,
        PlacementFailedError,
        ContextOverflowError,
        gives={OK: _ANY_ANSWER},
        takes=any_body(
            "A request of OpenAI's chat completions, with any further members.",
            BOOKS,
            own={MEMBER: Scene},
        ),
        is_gateway=True,
    ),
)
async def create_chat_completion(
    request: Request,
    _prompt: _Prompt = None,
    _conversation: _Conversation = None,
    _char: _Char = None,
    _user: _User = None,
    _key: _Key = None,
) -> Response:
    """Add lore to the messages and forward the request; the answer comes back unchanged.

    The member `lorewell` and control lines in system messages say what is known about the turn;
    they are not forwarded.
    Needs the scope `read`, and `write` if the books keep timed state.
    """
    gateway, entered = await _enter(request)
    services = shared(request).services
    body = await read_body(request, shared(request).settings)
    is_small = len(body) < _SMALL_BYTES
    if is_small:
        completion, given, turn = _parse(request, body)
    else:
        completion, given, turn = await services.computing.run(
            entered.tenant_id, lambda: _parse(request, body)
        )
    enriched = await enrich(services, gateway, entered, turn)
    if enriched is not None and enriched.selection is not None:
        shared(request).metrics.selected(enriched.selection)
    model = gateway.upstream_model or None

    def write() -> bytes:
        messages = place_note(turn) if enriched is None else enriched.messages
        return completion.write(given.written(messages), model)

    body = write() if is_small else await services.computing.finish(entered.tenant_id, write)
    call = UpstreamCall(
        method="POST",
        path="/chat/completions",
        headers=names.forwarded_headers(request.headers.raw),
        authorization=_authorization(request, gateway),
        body=body,
    )
    hear = None if enriched is None else enriched.hear
    return Relay(
        gateway.upstream,
        call,
        names.lore_headers(enriched),
        _checking(request),
        None if hear is None else partial(_keep_reply, services, hear),
    )


async def _keep_reply(services: Services, hear: Hear, text: str) -> None:
    """Store a reply, but do not delay or fail the answer for it."""
    stored = services.jobs.start(hear(text))
    await asyncio.wait({stored}, timeout=_MAX_DELAY_S)


@router.get(
    "/gateway/v1/models", **documented(*_UPSTREAM, gives={OK: _ANY_ANSWER}, is_gateway=True)
)
async def list_models(request: Request, _key: _Key = None) -> Response:
    """Return the model names that a client may use.

    If the gateway is set to one model, these are the prompts that have books, and that model. Else
    they are the models of the model server.
    """
    gateway, entered = await _enter(request)
    services = shared(request).services
    if not gateway.upstream_model:
        call = UpstreamCall(
            method="GET",
            path="/models",
            headers=names.forwarded_headers(request.headers.raw),
            authorization=names.upstream_authorization(
                request.headers, gateway, auth=services.auth
            ),
        )
        return Relay(gateway.upstream, call, {}, _checking(request))
    prompts = await list_prompts(services, entered.tenant_id)
    models = [
        {"id": name, "object": "model", "created": 0, "owned_by": "lorewell"}
        for name in dict.fromkeys((*prompts, gateway.upstream_model))
    ]
    return answer_json(orjson.dumps({"object": "list", "data": models}))


async def _enter(request: Request) -> tuple[Gateway, Caller]:
    services = shared(request).services
    gateway = services.gateway
    if gateway is None:
        message = "The gateway is off: set LOREWELL_GATEWAY_UPSTREAM_URL to a model server."
        raise GatewayOffError(message)
    authorization = request.headers.get("authorization")
    entered = await enter(services, authorization, "read", usual_tenant=gateway.tenant_id)
    request.scope["state"][TENANT] = entered.tenant_id
    return gateway, entered


def _authorization(request: Request, gateway: Gateway) -> str | None:
    auth = shared(request).services.auth
    return names.upstream_authorization(request.headers, gateway, auth=auth)


def _parse(request: Request, body: bytes) -> tuple[Completion, ClientMessages, ChatTurn]:
    settings = shared(request).settings
    with naming_the_limit(settings):
        completion = Completion.parse(body, max_values=settings.max_json_values)
    given = completion.read_messages()
    return completion, given, _turn_of(request, completion, given)


def _checking(request: Request) -> Callable[[], Awaitable[object]]:
    async def check() -> None:
        await _enter(request)

    return check


def _turn_of(request: Request, completion: Completion, given: ClientMessages) -> ChatTurn:
    headers = request.headers
    named = names.find_text(headers, names.PROMPT)
    fallbacks = (completion.find_text("user"), completion.find_text("model"))
    return ChatTurn(
        prompt_ids=[named] if named else list(dict.fromkeys(each for each in fallbacks if each)),
        conversation_id=names.find_text(headers, names.CONVERSATION),
        end_user=completion.find_text("user"),
        messages=given.messages,
        chars=len(completion.text),
        tools=completion.find_objects("tools"),
        reserved_tokens=completion.find_count("max_completion_tokens", "max_tokens"),
        said=ClientScene(
            member=completion.read_scene(),
            control=given.control,
            char=names.find_text(headers, names.CHAR),
            user=names.find_text(headers, names.USER),
        ),
    )
