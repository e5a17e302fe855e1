"""Routes for turns: selections, conversations, searches, token counts, and prompt bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from lorewell.client.answers import (
    activation,
    budget_plan,
    chat_replay,
    model,
    nothing,
    prompt,
    replay_diff,
    replayed,
    replica,
    selection,
)
from lorewell.client.calls import (
    ClientCall,
    Repeatability,
    RouteArguments,
    Session,
    TenantOptions,
    page_of,
    segment,
)
from lorewell.model import (
    ActivatePreview,
    ActivateRequest,
    AssembleRequest,
    AssembleResponse,
    BindingSet,
    BindingsPut,
    ConditionTrial,
    ConditionTried,
    Conversation,
    ConversationPage,
    LintAnswer,
    LintRequest,
    PreviewRequest,
    ReplayRequest,
    ReplayResponse,
    ReplicaPreview,
    ReplicaRequest,
    ReplicaResponse,
    ResolvedBindings,
    SearchRequest,
    SearchResponse,
    SelectRequest,
    SelectResponse,
    SillyTavernResponse,
    TokenCountRequest,
    TokenCounts,
)
from lorewell.model.binding import PromptPage
from lorewell.model.chat_replay import BudgetPlan, ChatReplay, ReplayDiff
from lorewell.model.explained import ContextExplain, Explanation, ReplicaExplain, SillyTavernExplain
from lorewell.model.parse import parse_model
from lorewell.model.replay_request import ChatReplayRequest, ReplayDiffRequest, ReplayPlanRequest

BINDINGS = "/v1/prompt-bindings"
CONVERSATIONS = "/v1/conversations"
SILLYTAVERN = "/v1/sillytavern"
REPLICA = "/v1/replica"


def select_for_turn(
    session: Session,
    request: SelectRequest,
    *,
    prompt_id: str | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[SelectResponse]:
    """Return which entries of the books go into this turn, and why the others don't."""
    path, query = "/v1/context/select", {"prompt_id": prompt_id}
    ask = RouteArguments(
        method="POST", path=path, kind=Repeatability.READ, query=query, body=request
    )
    return session.call(ask, selection, options)


def preview_for_turn(
    session: Session,
    request: PreviewRequest,
    *,
    prompt_id: str | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[SelectResponse]:
    """Select from books with unsaved changes, or not stored at all; nothing is stored."""
    path, query = "/v1/context/preview", {"prompt_id": prompt_id}
    ask = RouteArguments(
        method="POST", path=path, kind=Repeatability.READ, query=query, body=request
    )
    return session.call(ask, selection, options)


def explain_context(
    session: Session, asked: ContextExplain, **options: Unpack[TenantOptions]
) -> ClientCall[Explanation]:
    """Explain one entry: its gates, near misses of its keys, and what would flip the verdict."""
    ask = RouteArguments(
        method="POST", path="/v1/context/explain", kind=Repeatability.READ, body=asked
    )
    return session.call(ask, model(Explanation), options)


def get_selection(
    session: Session, selection_id: str, **options: Unpack[TenantOptions]
) -> ClientCall[SelectResponse]:
    """Return a recent selection by its fingerprint, with its whole ledger."""
    path = f"/v1/selections/{segment(selection_id)}"
    return session.call(
        RouteArguments(method="GET", path=path, kind=Repeatability.READ), selection, options
    )


def activate_for_turn(
    session: Session,
    request: ActivateRequest,
    *,
    prompt_id: str | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[SillyTavernResponse]:
    """Run one turn under SillyTavern's rules; return the active entries, and why the others aren't.

    With a `conversation_id`, timed state is kept. The same call again gives the same answer.
    """
    path, query = f"{SILLYTAVERN}/activate", {"prompt_id": prompt_id}
    ask = RouteArguments(
        method="POST", path=path, kind=Repeatability.READ, query=query, body=request
    )
    return session.call(ask, activation, options)


def get_activation(
    session: Session, activation_id: str, **options: Unpack[TenantOptions]
) -> ClientCall[SillyTavernResponse]:
    """Return a recent turn of stored books with its whole ledger."""
    path = f"{SILLYTAVERN}/activations/{segment(activation_id)}"
    return session.call(
        RouteArguments(method="GET", path=path, kind=Repeatability.READ), activation, options
    )


def preview_activation(
    session: Session, request: ActivatePreview, **options: Unpack[TenantOptions]
) -> ClientCall[SillyTavernResponse]:
    """Activate books with unsaved changes, or not stored at all; nothing is kept."""
    ask = RouteArguments(
        method="POST", path=f"{SILLYTAVERN}/preview", kind=Repeatability.READ, body=request
    )
    return session.call(ask, activation, options)


def explain_activation(
    session: Session, asked: SillyTavernExplain, **options: Unpack[TenantOptions]
) -> ClientCall[Explanation]:
    """Explain one entry under SillyTavern's rules, and what would flip the verdict."""
    ask = RouteArguments(
        method="POST", path=f"{SILLYTAVERN}/explain", kind=Repeatability.READ, body=asked
    )
    return session.call(ask, model(Explanation), options)


def replay_chat(
    session: Session, request: ReplayRequest, **options: Unpack[TenantOptions]
) -> ClientCall[ReplayResponse]:
    """Run a whole chat turn by turn; return active entries, timed state and budget of each turn."""
    ask = RouteArguments(
        method="POST", path=f"{SILLYTAVERN}/replay", kind=Repeatability.READ, body=request
    )
    return session.call(ask, replayed, options)


def replay_context(
    session: Session, request: ChatReplayRequest, **options: Unpack[TenantOptions]
) -> ClientCall[ChatReplay]:
    """Return a whole chat turn by turn under the policy `native`."""
    ask = RouteArguments(
        method="POST", path="/v1/context/replay", kind=Repeatability.READ, body=request
    )
    return session.call(ask, chat_replay, options)


def replay_replica(
    session: Session, request: ChatReplayRequest, **options: Unpack[TenantOptions]
) -> ClientCall[ChatReplay]:
    """Return a whole chat turn by turn under SillyTavern_replica's rules."""
    ask = RouteArguments(
        method="POST", path="/v1/replica/replay", kind=Repeatability.READ, body=request
    )
    return session.call(ask, chat_replay, options)


def compare_replays(
    session: Session, request: ReplayDiffRequest, **options: Unpack[TenantOptions]
) -> ClientCall[ReplayDiff]:
    """Return which turns and entries of a chat differ between two sides."""
    ask = RouteArguments(
        method="POST", path="/v1/replay/diff", kind=Repeatability.READ, body=request
    )
    return session.call(ask, replay_diff, options)


def plan_replay(
    session: Session, request: ReplayPlanRequest, **options: Unpack[TenantOptions]
) -> ClientCall[BudgetPlan]:
    """Return what each entry costs over a chat, and what other token budgets would change."""
    ask = RouteArguments(
        method="POST", path="/v1/replay/plan", kind=Repeatability.READ, body=request
    )
    return session.call(ask, budget_plan, options)


def activate_replica(
    session: Session,
    request: ReplicaRequest,
    *,
    prompt_id: str | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[ReplicaResponse]:
    """Run one turn under SillyTavern_replica's rules; return the active entries and the reasons."""
    path, query = f"{REPLICA}/activate", {"prompt_id": prompt_id}
    ask = RouteArguments(
        method="POST", path=path, kind=Repeatability.READ, query=query, body=request
    )
    return session.call(ask, replica, options)


def get_replica_activation(
    session: Session, activation_id: str, **options: Unpack[TenantOptions]
) -> ClientCall[ReplicaResponse]:
    """Return a recent turn by its `activation_id`, with its whole ledger."""
    path = f"{REPLICA}/activations/{segment(activation_id)}"
    return session.call(
        RouteArguments(method="GET", path=path, kind=Repeatability.READ), replica, options
    )


def preview_replica(
    session: Session, request: ReplicaPreview, **options: Unpack[TenantOptions]
) -> ClientCall[ReplicaResponse]:
    """Activate books with unsaved changes to some entries; nothing is kept."""
    ask = RouteArguments(
        method="POST", path=f"{REPLICA}/preview", kind=Repeatability.READ, body=request
    )
    return session.call(ask, replica, options)


def explain_replica(
    session: Session, asked: ReplicaExplain, **options: Unpack[TenantOptions]
) -> ClientCall[Explanation]:
    """Explain one entry under SillyTavern_replica's rules, and what would flip the verdict."""
    ask = RouteArguments(
        method="POST", path=f"{REPLICA}/explain", kind=Repeatability.READ, body=asked
    )
    return session.call(ask, model(Explanation), options)


def assemble_prompt(
    session: Session, request: AssembleRequest, **options: Unpack[TenantOptions]
) -> ClientCall[AssembleResponse]:
    """Return the messages of a prompt with the lore in place; nothing is stored."""
    ask = RouteArguments(
        method="POST", path="/v1/host/assemble", kind=Repeatability.READ, body=request
    )
    return session.call(ask, prompt, options)


def list_conversations(
    session: Session,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[ConversationPage]:
    """Return a page of conversations, most recently used first."""
    ask = RouteArguments(
        method="GET", path=CONVERSATIONS, kind=Repeatability.READ, query=page_of(limit, cursor)
    )
    return session.call(ask, model(ConversationPage), options)


def get_conversation(
    session: Session, conversation_id: str, **options: Unpack[TenantOptions]
) -> ClientCall[Conversation]:
    """Return a conversation with all its stored states, newest first."""
    path = f"{CONVERSATIONS}/{segment(conversation_id)}"
    return session.call(
        RouteArguments(method="GET", path=path, kind=Repeatability.READ),
        model(Conversation),
        options,
    )


def delete_conversation(
    session: Session, conversation_id: str, **options: Unpack[TenantOptions]
) -> ClientCall[None]:
    """Delete a conversation and its stored states."""
    path = f"{CONVERSATIONS}/{segment(conversation_id)}"
    return session.call(
        RouteArguments(method="DELETE", path=path, kind=Repeatability.WRITE), nothing, options
    )


def count_tokens(
    session: Session,
    texts: Sequence[str],
    *,
    tokenizer: str | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[TokenCounts]:
    """Count the tokens of 1 to 1,000 texts, with the service's tokenizer or a named one."""
    request = parse_model(TokenCountRequest, {"texts": tuple(texts), "tokenizer": tokenizer})
    ask = RouteArguments(
        method="POST", path="/v1/tokens/count", kind=Repeatability.READ, body=request
    )
    return session.call(ask, model(TokenCounts), options)


def try_condition(
    session: Session, trial: ConditionTrial, **options: Unpack[TenantOptions]
) -> ClientCall[ConditionTried]:
    """Evaluate a condition for some values, part by part, or return what is wrong with it."""
    ask = RouteArguments(
        method="POST", path="/v1/conditions/try", kind=Repeatability.READ, body=trial
    )
    return session.call(ask, model(ConditionTried), options)


def lint(
    session: Session, request: LintRequest, **options: Unpack[TenantOptions]
) -> ClientCall[LintAnswer]:
    """Return the mistakes in a book that is stored, changed, or sent whole; nothing is stored."""
    ask = RouteArguments(method="POST", path="/v1/lint", kind=Repeatability.READ, body=request)
    return session.call(ask, model(LintAnswer), options)


def search_books(
    session: Session, request: SearchRequest, **options: Unpack[TenantOptions]
) -> ClientCall[SearchResponse]:
    """Return the matching entries, best first; the filters of a selection do not apply."""
    ask = RouteArguments(method="POST", path="/v1/search", kind=Repeatability.READ, body=request)
    return session.call(ask, model(SearchResponse), options)


def put_bindings(
    session: Session, prompt_id: str, bindings: BindingsPut, **options: Unpack[TenantOptions]
) -> ClientCall[BindingSet]:
    """Replace all bindings of a prompt."""
    query = {"prompt_id": prompt_id}
    ask = RouteArguments(
        method="PUT", path=BINDINGS, kind=Repeatability.WRITE, query=query, body=bindings
    )
    return session.call(ask, model(BindingSet), options)


def get_bindings(
    session: Session, prompt_id: str, **options: Unpack[TenantOptions]
) -> ClientCall[BindingSet]:
    """Return the stored bindings of a prompt, including disabled ones."""
    ask = RouteArguments(
        method="GET", path=BINDINGS, kind=Repeatability.READ, query={"prompt_id": prompt_id}
    )
    return session.call(ask, model(BindingSet), options)


def list_prompts(
    session: Session,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[PromptPage]:
    """Return a page of the prompts that use books, by name."""
    query = page_of(limit, cursor)
    ask = RouteArguments(method="GET", path="/v1/prompts", kind=Repeatability.READ, query=query)
    return session.call(ask, model(PromptPage), options)


def list_book_prompts(
    session: Session,
    book_id: str,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    **options: Unpack[TenantOptions],
) -> ClientCall[PromptPage]:
    """Return a page of the prompts that use a book, by name."""
    path, query = f"/v1/books/{segment(book_id)}/prompts", page_of(limit, cursor)
    ask = RouteArguments(method="GET", path=path, kind=Repeatability.READ, query=query)
    return session.call(ask, model(PromptPage), options)


def resolve_bindings(
    session: Session, prompt_id: str, **options: Unpack[TenantOptions]
) -> ClientCall[ResolvedBindings]:
    """Return the revisions that a prompt uses now, in order, and their policy."""
    path, query = f"{BINDINGS}/resolve", {"prompt_id": prompt_id}
    ask = RouteArguments(method="GET", path=path, kind=Repeatability.READ, query=query)
    return session.call(ask, model(ResolvedBindings), options)
