"""The use cases of the gateway: add lore to the messages of a chat, and list prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, assert_never

from lorewell.app.access import Caller
from lorewell.app.bindings import find_bound
from lorewell.app.gateway.activations import make_activation, spoken_lines
from lorewell.app.gateway.scenes import MEMBER, ClientScene, KnownTurn
from lorewell.app.ledgers import LedgerRef
from lorewell.app.native.selection import select_context, selection_ledger
from lorewell.app.ports import Transaction
from lorewell.app.replica.activation import activate_replica
from lorewell.app.runtime.bound_prompts import BoundPrompt
from lorewell.app.runtime.gateway import Gateway, SentPrompt
from lorewell.app.services import Services
from lorewell.app.sillytavern.activation import Hear, SpokenChat, activate_turn
from lorewell.app.sillytavern.places import UnnamedScope
from lorewell.app.tokens import choose_counter
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import TokenCounter
from lorewell.errors import ForbiddenError
from lorewell.host import (
    HostBlock,
    TurnInputs,
    assemble,
    from_activation,
    from_replica,
    from_selection,
    insert_note,
    make_query,
    make_replica,
)
from lorewell.host.completions import find_name, read_completion
from lorewell.host.draft import spoken_text
from lorewell.model import Policy, SelectResponse
from lorewell.model.activated import Continued
from lorewell.model.assemble import AssembleOptions, DraftMessage, PromptBudget
from lorewell.model.assembled import AssembleResponse, SharedPrefix
from lorewell.model.faults import faults_below
from lorewell.model.live import Occasion
from lorewell.model.scene import Scene
from lorewell.model.scene_fields import usable
from lorewell.model.text import canonical_json, is_blank, pointer

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
        conversation_id: None if the client does not name one.
        end_user: `user` of the request, if given.
        messages: with storable texts, each with a string as `role`.
        chars: their approximate length.
        tools: tool definitions.
        reserved_tokens: tokens that the request allows the answer; None if it does not say.
        said: what the client says about the turn.
    """

    prompt_ids: Sequence[str]
    conversation_id: str | None
    end_user: str | None = None
    messages: Sequence[ChatMessage] = field(repr=False)
    chars: int
    tools: Sequence[Mapping[str, object]] = ()
    reserved_tokens: int | None = None
    said: ClientScene = field(default_factory=ClientScene)


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
        continued: the timed state that the turn started from, under the policy `sillytavern`.
        hear: stores the text of the reply; None if nothing is kept.
        warning_count: number of warnings in the ledger.
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
    continued: Continued | None
    hear: Hear | None
    warning_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _PolicyResult:
    """The result of a policy for a turn.

    Attributes:
        blocks: makes the blocks to place.
        ledger: where its ledger can be opened; None if it is not kept.
        selection: the selection, under the policy `native`.
        continued: the timed state it started from, under the policy `sillytavern`.
        hear: as in `EnrichedChat`.
    """

    blocks: Callable[[Steps], Sequence[HostBlock]]
    ledger: LedgerRef | None
    warning_count: int
    selection: SelectResponse | None = None
    continued: Continued | None = None
    hear: Hear | None = None


async def enrich(
    services: Services, gateway: Gateway, caller: Caller, turn: ChatTurn
) -> EnrichedChat | None:
    """Add lore to the messages of a turn; return None if there is none to add.

    That is if its prompt has no books, or its scene turns lore off.

    Under the policy `sillytavern`, timed state is stored as for any turn of a conversation.

    Raises:
        BindingInvalidError: a binding of the prompt names a missing book or revision.
        ForbiddenError: timed state has to be stored, and the API key lacks the scope `write`.
        SelectionError: a required entry does not fit.
        PlacementFailedError: the messages lack the place of a block.
        ContextOverflowError: the prompt exceeds the context window.
        ValidationFailedError: the scene gives the author's note of the messages again, or an
            unknown tokenizer.
        LorewellError: as `select_context`, `activate_turn` and `activate_replica`.
    """
    tenant_id, said = caller.tenant_id, turn.said.merged()
    if said is not None and said.enabled is False:
        return None
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
    scene = turn.said.merged(usable(bound.settings.scene, bound.policy, in_prompt=True))
    prepare = partial(_prepare, caller, bound.prompt_id, turn, scene)
    is_small = turn.chars <= _SMALL_CHARS
    prepared = prepare() if is_small else await services.computing.run(tenant_id, prepare)
    draft, known = prepared
    run = _Run(
        services=services,
        gateway=gateway,
        caller=caller,
        bound=bound,
        turn=turn,
        draft=draft,
        known=known,
        counter=await _choose_counter(services, gateway, tenant_id, scene, said),
    )
    result = await run.apply_policy()
    return run.report(result, await run.assemble(result))


def place_note(turn: ChatTurn) -> tuple[int | ChatMessage, ...] | None:
    """Return the messages of a turn without lore; None if they stay as they are.

    The author's note of its scene is put in its place.

    Raises:
        ValidationFailedError: the messages have an author's note too.
    """
    scene = turn.said.merged()
    if scene is None or scene.note is None or is_blank(scene.note.text):
        return None
    return _indexed(turn, [item.message for item in _draft(turn, scene)])


def _draft(turn: ChatTurn, scene: Scene | None) -> tuple[DraftMessage, ...]:
    draft = read_completion(turn.messages)
    with faults_below(pointer(MEMBER)):
        return draft if scene is None or scene.note is None else insert_note(draft, scene.note)


def _indexed(turn: ChatTurn, messages: Sequence[ChatMessage]) -> tuple[int | ChatMessage, ...]:
    """Return messages with the index of each one that is unchanged."""
    indexes = {id(message): index for index, message in enumerate(turn.messages)}
    return tuple(indexes.get(id(message), message) for message in messages)


def _prepare(
    caller: Caller, prompt_id: str, turn: ChatTurn, scene: Scene | None
) -> tuple[tuple[DraftMessage, ...], KnownTurn]:
    """Return the messages, and what else is known.

    A retry with the same messages gets the same seed.
    """
    draft = _draft(turn, scene)
    conversation_id = turn.conversation_id or _label(caller, prompt_id, turn, draft)
    known = KnownTurn(
        scene=scene,
        speakers=turn.said.speakers(),
        conversation_id=conversation_id,
        seed=_digest([conversation_id, turn.messages]),
    )
    return draft, known


async def _choose_counter(
    services: Services, gateway: Gateway, tenant_id: str, scene: Scene | None, said: Scene | None
) -> TokenCounter:
    """Return the counter of the tokenizer that the client says, or else the prompt's settings."""
    if scene is None or scene.tokenizer in (None, gateway.counter.name):
        return gateway.counter
    is_said = said is not None and said.tokenizer is not None
    with faults_below(pointer(MEMBER) if is_said else "/settings/scene"):
        return await choose_counter(services, tenant_id, scene.tokenizer)


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
    caller: Caller
    bound: BoundPrompt
    turn: ChatTurn
    draft: tuple[DraftMessage, ...]
    known: KnownTurn
    counter: TokenCounter

    @property
    def tenant_id(self) -> str:
        """The tenant."""
        return self.caller.tenant_id

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
            request_id=self.known.seed,
            strategy=self.gateway.strategy,
            token_budget=self.gateway.token_budget,
            settings=self.bound.settings.native,
            char=find_name(self.draft, "assistant"),
            user=find_name(self.draft, "user"),
            scene=self.known.scene,
        )

    async def _activate_replica(self) -> _PolicyResult:
        made = await self._compute(lambda: make_replica(self.draft, self._inputs()))
        request = made.model_copy(update={"explain": "selected"})
        response = await activate_replica(self.services, self.tenant_id, request, self._occasion)
        return _PolicyResult(
            blocks=lambda _: from_replica(response.entries),
            ledger=LedgerRef.of("replica", self.tenant_id, response.activation_id),
            warning_count=len(response.warnings),
        )

    async def _select(self) -> _PolicyResult:
        query = await self._compute(lambda: make_query(self.draft, self._inputs()))
        request = query.request.model_copy(update={"explain": "selected"})
        response = await select_context(self.services, self.tenant_id, request, self._occasion)
        return _PolicyResult(
            blocks=lambda steps: from_selection(response.blocks, steps=steps),
            ledger=selection_ledger(self.services, self.tenant_id, response),
            warning_count=len(response.warnings),
            selection=response,
        )

    async def _activate(self) -> _PolicyResult:
        request = await self._compute(
            lambda: make_activation(self.gateway, self.bound, self.draft, self.known)
        )
        response, ledger, hear = await activate_turn(
            self.services,
            self.tenant_id,
            request.model_copy(update={"conversation_id": self.turn.conversation_id}),
            self._occasion,
            self._spoken(),
        )
        return _PolicyResult(
            blocks=lambda _: from_activation(response, split_lasting=self.gateway.stable_prefix),
            ledger=ledger,
            warning_count=len(response.warnings),
            continued=response.conversation,
            hear=hear,
        )

    def _spoken(self) -> SpokenChat:
        prompt_id, named = self.bound.prompt_id, self.turn.conversation_id
        scope = UnnamedScope(
            prompt_id=prompt_id,
            key_id=self.caller.key_id,
            user=self.turn.end_user,
            old_id=_old_id(self.tenant_id, prompt_id, self.draft),
        )
        return SpokenChat(
            lines=spoken_lines(self.draft, with_roles=named is None),
            scope=scope,
            seed_name=prompt_id if named is None else named,
        )

    @property
    def _occasion(self) -> Occasion:
        return Occasion(
            prompt_id=self.bound.prompt_id,
            source="gateway",
            conversation_id=self.known.conversation_id,
        )

    async def assemble(self, result: _PolicyResult) -> AssembleResponse:
        """Return the prompt, and remember it if the next turn will be compared with it."""
        gateway, name = self.gateway, (self.tenant_id, self._name_of(result))
        previous = gateway.sent.find(*name) if gateway.stable_prefix else None
        options = _options(gateway, self.turn, previous)

        def put_together(steps: Steps) -> AssembleResponse:
            blocks = result.blocks(steps)
            return assemble(self.draft, blocks, options, counter=self.counter, steps=steps)

        async with self.services.computing.turn(self.tenant_id) as turn:
            made = await turn.run(lambda: put_together(turn.steps))
        if gateway.stable_prefix:
            gateway.sent.keep(*name, SentPrompt(messages=made.messages, chars=self.turn.chars))
        return made

    def _name_of(self, result: _PolicyResult) -> str:
        """Return the id of the conversation, as the policy found it."""
        found = result.continued
        return self.known.conversation_id if found is None else found.conversation_id

    def report(self, result: _PolicyResult, made: AssembleResponse) -> EnrichedChat:
        """Return the messages and the facts about the selection."""
        placed = (each.id for each in made.placements if each.message_index is not None)
        return EnrichedChat(
            prompt_id=self.bound.prompt_id,
            policy=self.bound.policy,
            conversation_id=self._name_of(result),
            messages=_indexed(self.turn, made.messages),
            entry_ids=tuple(dict.fromkeys(placed)),
            worldbook_tokens=made.figures.worldbook_tokens,
            ledger=result.ledger,
            prefix=made.prefix,
            selection=result.selection,
            continued=result.continued,
            hear=result.hear,
            warning_count=result.warning_count,
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


def _label(caller: Caller, prompt_id: str, turn: ChatTurn, draft: Sequence[DraftMessage]) -> str:
    """Return a name for a chat without an id, where no state depends on it."""
    first = _first_input(draft)
    bounds = [each for each in (caller.key_id, turn.end_user) if each is not None]
    return "gateway-" + _digest([caller.tenant_id, prompt_id, first, *bounds])


def _old_id(tenant_id: str, prompt_id: str, draft: Sequence[DraftMessage]) -> str:
    """Return the id under which earlier versions kept the state of a chat without one."""
    return "gateway-" + _digest([tenant_id, prompt_id, _first_input(draft)])


def _first_input(draft: Sequence[DraftMessage]) -> str:
    texts = (
        spoken_text(item.message)
        for item in draft
        if item.kind in ("chat", "input") and item.message.get("role") == "user"
    )
    return next(texts, "")


def _digest(value: object) -> str:
    return hashlib.sha256(canonical_json(value)).hexdigest()[:_ID_CHARS]


async def list_prompts(services: Services, tenant_id: str) -> Sequence[str]:
    """Return the prompts that have books, by name; clients may use them as `model`."""
    found = await services.store.read(lambda tx: tx.list_prompts(tenant_id, limit=_MAX_MODELS))
    return [row.prompt_id for row in found]
