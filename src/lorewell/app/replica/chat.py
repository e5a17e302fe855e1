"""The chat of SillyTavern_replica's front end: active entries first, then the model's reply.

Source: docs/rules/replica.md §5, §6.2.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from lorewell.app.replica.activation import activate_replica
from lorewell.app.services import Services
from lorewell.engine.replica import ReplicaDraft, ReplicaMessage, assemble
from lorewell.errors import PolicyMismatchError
from lorewell.model.live import Occasion
from lorewell.model.parse import parse_json, parse_model
from lorewell.model.replica import ReplicaRequest, ReplicaResponse
from lorewell.model.replica_chat import ReplicaFrame

_MAX_NAME_CHARS: Final = 500
_MAX_PROMPT_CHARS: Final = 200
_CARD_TEXTS: Final = ("description", "personality", "scenario")
_EXAMPLES: Final = "mes_example"
_ROLES: Final = frozenset({"system", "user", "assistant"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaChat:
    """One turn of a chat.

    Attributes:
        request: the activation request.
        draft: the parts of the prompt that the client sent.
        streams: whether to send the reply in pieces.
        is_named: whether the client named the prompt explicitly.
    """

    request: ReplicaRequest
    draft: ReplicaDraft = field(repr=False)
    streams: bool
    is_named: bool


def read_frame(text: str, role: str) -> ReplicaChat:
    """Parse the message of a client.

    Args:
        text: the message.
        role: the role in the path. It is `{{char}}` if the client gives no name, and the prompt
            whose books are used too.

    Raises:
        MalformedJsonError: the message is not JSON.
        ValidationFailedError: a member is invalid.
    """
    document = parse_json(text.encode())
    frame = parse_model(ReplicaFrame, document)
    named = None if frame.scene is None else frame.scene.char
    char = frame.char or _name_of(frame.current_role) or _name_of(role)
    prompt_id = frame.prompt_id or _prompt_of(role)
    listed = document.get("chatHistory") or ()
    given = frame.model_fields_set & ReplicaRequest.model_fields.keys()
    members = {name: getattr(frame, name) for name in given}
    members |= {"prompt_id": prompt_id, "explain": "selected"}
    if named is None:
        members["char"] = char
    return ReplicaChat(
        request=ReplicaRequest.model_construct(**members),
        draft=ReplicaDraft(
            character="\n".join(_character_of(frame)),
            examples=_text_in(frame.current_role, _EXAMPLES),
            history=tuple(map(ReplicaMessage, _roles_of(listed), frame.chat_history)),
            mes=frame.mes,
        ),
        streams=frame.stream is not False,
        is_named=frame.prompt_id is not None,
    )


def _name_of(role: object) -> str | None:
    name = role.get("name") if isinstance(role, dict) else role
    is_name = isinstance(name, str) and 0 < len(name) <= _MAX_NAME_CHARS
    return str(name) if is_name else None


def _prompt_of(role: str) -> str | None:
    is_clean = all(unicodedata.category(character) != "Cc" for character in role)
    return role if is_clean and 0 < len(role) <= _MAX_PROMPT_CHARS else None


def _character_of(frame: ReplicaFrame) -> Iterator[str]:
    if isinstance(frame.preset_config, str) and frame.preset_config:
        yield frame.preset_config
    for name in _CARD_TEXTS:
        text = _text_in(frame.current_role, name)
        if text:
            yield text


def _text_in(holder: object, name: str) -> str:
    text = holder.get(name) if isinstance(holder, dict) else None
    return text if isinstance(text, str) else ""


def _roles_of(history: Sequence[object]) -> list[str]:
    """Return the role of each message: its own, else user and assistant alternate.

    The last message is the assistant's, since the user speaks next.
    """
    roles = []
    for number, item in enumerate(history):
        turn = "user" if (len(history) - number) % 2 == 0 else "assistant"
        roles.append(_own_role(item) or turn)
    return roles


def _own_role(item: object) -> str | None:
    if not isinstance(item, dict):
        return None
    if isinstance(item.get("is_user"), bool):
        return "user" if item["is_user"] else "assistant"
    role = item.get("role")
    return role if role in _ROLES else None


async def activate_chat(services: Services, tenant_id: str, chat: ReplicaChat) -> ReplicaResponse:
    """Return the active entries of a turn.

    The books of the prompt named like the role are used too, if they run under this policy.

    Raises:
        LorewellError: as `activate_replica`.
    """
    occasion = Occasion.of(chat.request.prompt_id, "replica")
    try:
        return await activate_replica(services, tenant_id, chat.request, occasion)
    except PolicyMismatchError:
        if chat.is_named:
            raise
    request = chat.request.model_copy(update={"prompt_id": None})
    return await activate_replica(services, tenant_id, request, occasion)


async def reply(
    services: Services, tenant_id: str, chat: ReplicaChat, activated: ReplicaResponse
) -> AsyncGenerator[str]:
    """Yield the frames after the active entries: the chunks of the reply, then `complete`.

    Without a model, only `complete`.

    Raises:
        UpstreamError: there is no reply, or it breaks off.
    """
    if services.model is not None:
        async with services.computing.turn(tenant_id) as turn:
            assembled = await turn.run(
                lambda: assemble(chat.draft, activated.entries, steps=turn.steps)
            )
        messages = [message._asdict() for message in assembled.messages]
        parts: list[str] = []
        async with aclosing(services.model.stream(messages)) as pieces:
            async for piece in pieces:
                if chat.streams and piece.content:
                    yield _frame("chunk", content=piece.content)
                else:
                    parts.append(piece.content)
        whole = "".join(parts)
        if whole:
            yield _frame("chunk", content=whole)
    yield _frame("complete")


def _frame(kind: str, **members: Any) -> str:  # noqa: ANN401  JSON
    return json.dumps({"type": kind, **members}, ensure_ascii=False)
