"""The use cases of the gateway: add lore to the messages of a chat, and list prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, assert_never

from lorewell.app.access import Caller
from lorewell.app.bindings import find_bound
from lorewell.app.gateway.activations import make_activation
from lorewell.app.ledgers import LedgerRef
from lorewell.app.native.selection import select_context, selection_ledger
from lorewell.app.ports import Transaction
from lorewell.app.replica.activation import activate_replica
from lorewell.app.runtime.bound_prompts import BoundPrompt
from lorewell.app.runtime.gateway import Gateway, SentPrompt
from lorewell.app.services import Services
from lorewell.app.sillytavern.activation import activate_turn
from lorewell.engine.steps import Steps
from lorewell.errors import ForbiddenError
from lorewell.host import (
    HostBlock,
    TurnInputs,
    assemble,
    from_activation,
    from_replica,
    from_selection,
    make_query,
    make_replica,
)
from lorewell.host.completions import find_name, read_completion
from lorewell.host.draft import spoken_text
from lorewell.model import Policy, SelectResponse
from lorewell.model.assemble import AssembleOptions, DraftMessage, PromptBudget
from lorewell.model.assembled import AssembleResponse, SharedPrefix
from lorewell.model.live import Occasion
from lorewell.model.text import canonical_json

_SMALL_CHARS = 32_768
_ID_CHARS = 40
_MAX_MODELS = 1_000

Result = TypeVar("Result")

ChatMessage = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurn:
    """The parts of a client's request that matter for lore.

    Attributes:
        prompt_ids: candidate prompts; the first one with books is used.
        conversation_id: None derives one from tenant, prompt and the user's first message.
        messages: with storable texts, each with a string as `role`.
        chars: their approximate length.
        tools: tool definitions.
        reserved_tokens: tokens that the request allows the answer; None if it does not say.
        char, user: names, if given.
    """

    prompt_ids: Sequence[str]
    conversation_id: str | None
    messages: Sequence[ChatMessage] = field(repr=False)
    chars: int
    tools: Sequence[Mapping[str, object]] = ()
    reserved_tokens: int | None = None
    char: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichedChat:
    """The messages of a turn with lore added, and facts about the selection.

    Attributes:
        messages: in order; a number is the index of a message of the turn that stays unchanged.
        entry_ids: the added entries, in the order of the prompt.
        worldbook_tokens: tokens of the lore.
        ledger: where the ledger can be opened; None if it is not kept.
        prefix: the prefix shared with the previous turn; None if unknown.
        selection: the selection, under the policy `native`.
    """

    prompt_id: str
    policy: Policy
    conversation_id: str
    messages: tuple[int | ChatMessage, ...] = field(repr=False)
    entry_ids: tuple[str, ...]
    worldbook_tokens: int
    ledger: LedgerRef | None
    prefix: SharedPrefix | None
    selection: SelectResponse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PolicyResult:
    """The result of a policy for a turn.

    Attributes:
        blocks: makes the blocks to place.
        ledger: where its ledger can be opened; None if it is not kept.
    """

    blocks: Callable[[Steps], Sequence[HostBlock]]
    ledger: LedgerRef | None
    selection: SelectResponse | None = None


async def enrich(
    services: Services, gateway: Gateway, caller: Caller, turn: ChatTurn
) -> EnrichedChat | None:
    """Add lore to the messages of a turn; return None if its prompt has no books.

    Under the policy `sillytavern`, timed state is stored as for any turn of a conversation.

    Raises:
        BindingInvalidError: a binding of the prompt names a missing book or revision.
        ForbiddenError: timed state has to be stored, and the API key lacks the scope `write`.
        SelectionError: a required entry does not fit.
        PlacementFailedError: the messages lack the place of a block.
        ContextOverflowError: the prompt exceeds the context window.
        LorewellError: as `select_context`, `activate_turn` and `activate_replica`.
    """
    tenant_id = caller.tenant_id
    bound = await gateway.bound.find(
        services.store,
        (tenant_id, *turn.prompt_ids),
        lambda tx: _find_prompt(tx, tenant_id, turn.prompt_ids),
    )
    if bound is None:
        return None
    if bound.policy == "sillytavern" and "write" not in caller.scopes:
        message = "The books of this prompt store timed state, which requires the scope 'write'."
        raise ForbiddenError(message, scope="write")
    prepare = partial(_prepare, tenant_id, bound.prompt_id, turn)
    is_small = turn.chars <= _SMALL_CHARS
    prepared = prepare() if is_small else await services.computing.run(tenant_id, prepare)
    draft, conversation_id, seed = prepared
    run = _Run(
        services=services,
        gateway=gateway,
        tenant_id=tenant_id,
        bound=bound,
        turn=turn,
        draft=draft,
        conversation_id=conversation_id,
        seed=seed,
    )
    result = await run.apply_policy()
    return run.report(result, await run.assemble(result))


def _prepare(
    tenant_id: str, prompt_id: str, turn: ChatTurn
) -> tuple[tuple[DraftMessage, ...], str, str]:
    """Return the messages, the conversation id, and the seed.

    A retry with the same messages gets the same seed.
    """
    draft = read_completion(turn.messages)
    conversation_id = turn.conversation_id or _default_conversation_id(tenant_id, prompt_id, draft)
    return draft, conversation_id, _digest([conversation_id, turn.messages])


def _find_prompt(tx: Transaction, tenant_id: str, prompt_ids: Sequence[str]) -> BoundPrompt | None:
    for prompt_id in prompt_ids:
        bound = find_bound(tx, tenant_id, prompt_id)
        if bound.rows:
            return BoundPrompt(
                prompt_id=prompt_id,
                policy=bound.policy,
                books=bound.books,
                settings=bound.settings,
            )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One turn of a prompt that has books."""

    services: Services
    gateway: Gateway
    tenant_id: str
    bound: BoundPrompt
    turn: ChatTurn
    draft: tuple[DraftMessage, ...]
    conversation_id: str
    seed: str

    async def apply_policy(self) -> _PolicyResult:
        """Return the result of the prompt's policy."""
        match self.bound.policy:
            case "native":
                return await self._select()
            case "sillytavern":
                return await self._activate()
            case "replica":
                return await self._activate_replica()
            case policy:
                assert_never(policy)

    async def _compute(self, work: Callable[[], Result]) -> Result:
        """Run the work, in the compute pool if the chat is long."""
        if self.turn.chars <= _SMALL_CHARS:
            return work()
        return await self.services.computing.finish(self.tenant_id, work)

    def _inputs(self) -> TurnInputs:
        return TurnInputs(
            books=self.bound.books,
            request_id=self.seed,
            strategy=self.gateway.strategy,
            token_budget=self.gateway.token_budget,
            settings=self.bound.settings.native,
            char=self.turn.char or find_name(self.draft, "assistant"),
            user=self.turn.user or find_name(self.draft, "user"),
        )

    async def _activate_replica(self) -> _PolicyResult:
        made = await self._compute(lambda: make_replica(self.draft, self._inputs()))
        request = made.model_copy(update={"explain": "selected"})
        response = await activate_replica(self.services, self.tenant_id, request, self._occasion)
        return _PolicyResult(
            blocks=lambda _: from_replica(response.entries),
            ledger=LedgerRef.of("replica", self.tenant_id, response.activation_id),
        )

    async def _select(self) -> _PolicyResult:
        query = await self._compute(lambda: make_query(self.draft, self._inputs()))
        request = query.request.model_copy(update={"explain": "selected"})
        response = await select_context(self.services, self.tenant_id, request, self._occasion)
        return _PolicyResult(
            blocks=lambda steps: from_selection(response.blocks, steps=steps),
            ledger=selection_ledger(self.services, self.tenant_id, response),
            selection=response,
        )

    async def _activate(self) -> _PolicyResult:
        names = (self.turn.char, self.turn.user)
        request = await self._compute(
            lambda: make_activation(self.gateway, self.bound, self.draft, names)
        )
        response, ledger = await activate_turn(
            self.services,
            self.tenant_id,
            request.model_copy(update={"conversation_id": self.conversation_id, "seed": self.seed}),
            self._occasion,
        )
        return _PolicyResult(
            blocks=lambda _: from_activation(response, split_lasting=self.gateway.stable_prefix),
            ledger=ledger,
        )

    @property
    def _occasion(self) -> Occasion:
        return Occasion(
            prompt_id=self.bound.prompt_id,
            source="gateway",
            conversation_id=self.conversation_id,
        )

    async def assemble(self, result: _PolicyResult) -> AssembleResponse:
        """Return the prompt, and remember it if the next turn will be compared with it."""
        gateway, name = self.gateway, (self.tenant_id, self.conversation_id)
        previous = gateway.sent.find(*name) if gateway.stable_prefix else None
        options = _options(gateway, self.turn, previous)

        def put_together(steps: Steps) -> AssembleResponse:
            counter = self.gateway.counter
            blocks = result.blocks(steps)
            return assemble(self.draft, blocks, options, counter=counter, steps=steps)

        async with self.services.computing.turn(self.tenant_id) as turn:
            made = await turn.run(lambda: put_together(turn.steps))
        if gateway.stable_prefix:
            gateway.sent.keep(*name, SentPrompt(messages=made.messages, chars=self.turn.chars))
        return made

    def report(self, result: _PolicyResult, made: AssembleResponse) -> EnrichedChat:
        """Return the messages and the facts about the selection."""
        indexes = {id(item.message): index for index, item in enumerate(self.draft)}
        placed = (each.id for each in made.placements if each.message_index is not None)
        return EnrichedChat(
            prompt_id=self.bound.prompt_id,
            policy=self.bound.policy,
            conversation_id=self.conversation_id,
            messages=tuple(indexes.get(id(message), message) for message in made.messages),
            entry_ids=tuple(dict.fromkeys(placed)),
            worldbook_tokens=made.figures.worldbook_tokens,
            ledger=result.ledger,
            prefix=made.prefix,
            selection=result.selection,
        )


def _options(
    gateway: Gateway, turn: ChatTurn, previous: Sequence[ChatMessage] | None
) -> AssembleOptions:
    reserved = turn.reserved_tokens
    # Without validation: the messages and tools are the client's own.
    budget = PromptBudget(context_window=gateway.context_window).model_copy(
        update={
            "reserved_output": gateway.reserved_output if reserved is None else reserved,
            "tools": tuple(turn.tools),
        }
    )
    return AssembleOptions(
        merge_adjacent=gateway.merge_adjacent, stable_prefix=gateway.stable_prefix
    ).model_copy(update={"budget": budget, "previous": previous})


def _default_conversation_id(tenant_id: str, prompt_id: str, draft: Sequence[DraftMessage]) -> str:
    """Return the id of a conversation that the client did not name."""
    texts = (
        spoken_text(item.message)
        for item in draft
        if item.kind in ("chat", "input") and item.message.get("role") == "user"
    )
    return "gateway-" + _digest([tenant_id, prompt_id, next(texts, "")])


def _digest(value: object) -> str:
    return hashlib.sha256(canonical_json(value)).hexdigest()[:_ID_CHARS]


async def list_prompts(services: Services, tenant_id: str) -> Sequence[str]:
    """Return the prompts that have books, by name; clients may use them as `model`."""
    found = await services.store.read(lambda tx: tx.list_prompts(tenant_id, limit=_MAX_MODELS))
    return [row.prompt_id for row in found]
