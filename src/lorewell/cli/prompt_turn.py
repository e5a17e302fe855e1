"""`lorewell select --prompt`: which entries a turn of a prompt at a service takes, and why."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Final

from lorewell.cli.option_values import parse_options
from lorewell.cli.printing import print_json, say
from lorewell.cli.turn_lines import decision_lines, injected_lines
from lorewell.cli.turn_options import TurnOptions
from lorewell.engine.tokens import TokenCounter
from lorewell.errors import ValidationFailedError
from lorewell.formats.files import load_json
from lorewell.model import (
    ActivateRequest,
    Message,
    ReplicaRequest,
    ReplicaResponse,
    ResolvedBindings,
    SelectRequest,
    SelectResponse,
    SillyTavernResponse,
)
from lorewell.model.assemble import DraftMessage
from lorewell.model.parse import parse_model
from lorewell.model.plain import plain
from lorewell.model.prompt_settings import NativeDefaults
from lorewell.turn import LoreSource, PreparedTurn, TurnError, TurnHost, TurnInput
from lorewell.turn.config import BLOCK, read_config

_ID: Final = "select"
_OPTIONS: Final = {"strategy": "--strategy", "token_budget": "--budget"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptAtService:
    """A prompt, and the service that has its books."""

    prompt_id: str
    url: str | None
    api_key: str | None
    tenant: str


def show_turn(
    prompt: PromptAtService, turn: TurnOptions, tokens: TokenCounter, *, as_json: bool
) -> None:
    """Print which entries a turn of the prompt takes, and the decision on every entry.

    Nothing is stored, and nobody is told.

    Raises:
        LorewellError: the turn failed.
    """
    if turn.query is None:
        raise ValidationFailedError("--prompt goes with --query: a request names its own books.")
    try:
        prepared = asyncio.run(_prepare(prompt, turn, tokens))
    except TurnError as error:
        raise error.cause from error
    lore = prepared.lore
    if as_json:
        print_json("null" if lore.answer is None else lore.answer.to_json())
        return
    strategy = f", strategy {lore.query.request.strategy}" if lore.query is not None else ""
    say(plain(f"{prompt.prompt_id}: policy {lore.policy}{strategy}"))
    for line in injected_lines(prepared, tokens):
        say(f"  {line}")
    if lore.answer is not None:
        for line in decision_lines(prepared):
            say(line)


async def _prepare(
    prompt: PromptAtService, turn: TurnOptions, tokens: TokenCounter
) -> PreparedTurn:
    from lorewell.client import connect  # noqa: PLC0415  HTTP is needed only here

    block = {"tenantId": prompt.tenant, "serviceUrl": prompt.url, "apiKey": prompt.api_key}
    config = read_config({BLOCK: block})
    if config is None:
        raise AssertionError
    named = {"strategy": turn.strategy, "token_budget": turn.budget_tokens}
    document = {name: each for name, each in named.items() if each is not None}
    own = parse_options(NativeDefaults, document, _OPTIONS).given()
    given = TurnInput(
        request_id=turn.seed or "0",
        user_id=_ID,
        conversation_id=_ID,
        prompt_id=prompt.prompt_id,
        draft=_draft(turn),
        saved_state="" if turn.state is None else json.dumps(load_json(turn.state)),
        char=turn.char,
        user=turn.user,
        strategy=own.get("strategy"),
        token_budget=own.get("token_budget"),
    )
    async with connect(config) as client:
        return await TurnHost(config, _Unseen(client), counter=tokens).begin(given).prepare()


def _draft(turn: TurnOptions) -> list[DraftMessage]:
    document = {"history": () if turn.history is None else load_json(turn.history)}
    history = parse_model(SelectRequest, {"books": [{"book_id": ""}], "query": "-", **document})
    said = Message(role="user", content=turn.query or "")
    kinds = [*(("chat", each) for each in history.history), ("input", said)]
    return [
        parse_model(DraftMessage, {"kind": kind, "message": each.model_dump()})
        for kind, each in kinds
    ]


@dataclass(frozen=True, slots=True)
class _Unseen:
    """A `LoreSource` whose turns keep no state and make no live events."""

    lore: LoreSource

    async def resolve_bindings(self, prompt_id: str, /) -> ResolvedBindings:
        return await self.lore.resolve_bindings(prompt_id)

    async def select_for_turn(
        self, request: SelectRequest, /, *, prompt_id: str | None = None
    ) -> SelectResponse:
        del prompt_id
        return await self.lore.select_for_turn(request)

    async def activate_for_turn(
        self, request: ActivateRequest, /, *, prompt_id: str | None = None
    ) -> SillyTavernResponse:
        del prompt_id
        return await self.lore.activate_for_turn(
            request.model_copy(update={"conversation_id": None})
        )

    async def activate_replica(
        self, request: ReplicaRequest, /, *, prompt_id: str | None = None
    ) -> ReplicaResponse:
        del prompt_id
        return await self.lore.activate_replica(request)
