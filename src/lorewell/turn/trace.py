"""The trace of a turn (docs/rules/host.md §12)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lorewell.host import TurnQuery
from lorewell.model import (
    BookRef,
    PlacementCapabilities,
    ReplicaRequest,
    ReplicaResponse,
    SelectResponse,
    SillyTavernResponse,
)
from lorewell.model.assembled import AssembleResponse, Placement
from lorewell.model.decision import decision_members
from lorewell.model.replica import ReplicaDecision
from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn.asking import TurnLore
from lorewell.turn.errors import TurnError
from lorewell.turn.inputs import TurnInput

_DEGRADED = "rag_unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTrace:
    """One preparation of a turn. Of the lore it holds ids and titles; `trace_content` adds texts.

    Attributes:
        given: the input of the turn.
        config: the host's configuration; None without world books.
        reply_id: the host's id of the reply, if it gave one.
        capabilities: the places that the prompt had.
        lore: the lore of the turn; None if the selection failed.
        prompt: the assembled prompt; None if that failed, or without world books.
        error: why the model was not called; None if the turn could go on.
        reused: whether the lore is that of an earlier preparation of the same turn.
    """

    given: TurnInput
    config: WorldbookConfig | None
    reply_id: str | None
    capabilities: PlacementCapabilities
    lore: TurnLore | None
    prompt: AssembleResponse | None
    error: TurnError | None
    reused: bool

    @property
    def books(self) -> tuple[BookRef, ...]:
        """The revisions that the turn used."""
        bindings = None if self.lore is None else self.lore.bindings
        return () if bindings is None else bindings.books

    def members(self) -> dict[str, Any]:
        """Return the trace as JSON-safe members, with the names of the contract."""
        given, config, lore = self.given, self.config, self.lore
        query = None if lore is None else lore.query
        return {
            "requestId": given.request_id,
            "replyId": self.reply_id,
            "tenantId": None if config is None else config.tenant_id,
            "promptId": given.prompt_id,
            "conversationId": given.conversation_id,
            "policy": None if lore is None else lore.policy,
            "books": [ref.model_dump() for ref in self.books],
            "strategy": self._strategy(query),
            "tokenBudget": self._token_budget(query),
            **self._input_sizes(lore, query),
            "state_source": "none" if query is None else query.state_source,
            "scene_source": "none" if query is None else query.scene_source,
            "capabilities": self.capabilities.model_dump(mode="json"),
            "skipped": None if lore is None else lore.skipped,
            "selection": None if lore is None else _selection(lore),
            "decisions": [] if lore is None else _decisions(lore),
            "placements": self._placements(),
            "warnings": [] if lore is None or lore.answer is None else _warnings(lore.answer),
            "needed_tokens": self._figure("needed_tokens"),
            "window": None if config is None else config.context_window,
            "error": None if self.error is None else self.error.members(),
            "reused": self.reused,
        }

    def to_json(self) -> bytes:
        """Return the trace as compact JSON in UTF-8."""
        text = json.dumps(self.members(), ensure_ascii=False, separators=(",", ":"))
        return text.encode(errors="replace")

    def _strategy(self, query: TurnQuery | None) -> str | None:
        if query is not None:
            return query.request.strategy
        return None if self.config is None else self.config.strategy

    def _token_budget(self, query: TurnQuery | None) -> int | None:
        if query is not None:
            return query.request.token_budget
        return None if self.config is None else self.config.token_budget

    @staticmethod
    def _input_sizes(lore: TurnLore | None, query: TurnQuery | None) -> dict[str, int]:
        chars = count = 0
        request = None if lore is None else lore.activation
        if query is not None:
            chars, count = len(query.request.query), len(query.request.history)
        elif isinstance(request, ReplicaRequest):
            chars, count = len(request.mes), len(request.chat_history)
        elif request is not None:
            chat = request.chat
            chars, count = sum(len(line.content) for line in chat[-1:]), max(len(chat) - 1, 0)
        return {"query_chars": chars, "history_count": count}

    def _placements(self) -> list[dict[str, Any]]:
        if self.prompt is None:
            return []
        texts = self._texts()
        return [{**asdict(each), **_text_of(each, texts)} for each in self.prompt.placements]

    def _texts(self) -> Mapping[str, str]:
        answer = None if self.lore is None else self.lore.answer
        if answer is None or self.config is None or not self.config.trace_content:
            return {}
        if isinstance(answer, SelectResponse):
            return {block.id: block.content for block in answer.blocks}
        if isinstance(answer, ReplicaResponse):
            return {f"{each.book_id}:{each.uid}": each.content for each in answer.entries}
        return {entry.id: entry.content for entry in answer.activated}

    def _figure(self, name: str) -> object:
        if self.prompt is not None:
            return getattr(self.prompt.figures, name)
        return None if self.error is None else self.error.details.get(name)


def _text_of(placement: Placement, texts: Mapping[str, str]) -> dict[str, str]:
    return {"content": texts[placement.id]} if placement.id in texts else {}


def _selection(lore: TurnLore) -> dict[str, Any] | None:
    answer = lore.answer
    if isinstance(answer, SelectResponse):
        return {
            "policy_version": answer.policy_version,
            "selection_fingerprint": answer.selection_fingerprint,
            "prompt_hash": answer.prompt_hash,
            "token_count": answer.token_count,
            "tokenizer": answer.tokenizer,
            "degraded": list(answer.degraded),
            "duration_ms": lore.duration_ms,
        }
    if isinstance(answer, SillyTavernResponse):
        return {
            "policy_version": answer.policy_version,
            "selection_fingerprint": None,
            "prompt_hash": None,
            "token_count": answer.budget.used,
            "tokenizer": answer.budget.tokenizer,
            "degraded": [] if answer.vectors is None else list(answer.vectors.degraded),
            "duration_ms": lore.duration_ms,
        }
    if isinstance(answer, ReplicaResponse):  # this policy counts no tokens
        return {
            "policy_version": answer.policy_version,
            "selection_fingerprint": answer.activation_id,
            "prompt_hash": None,
            "token_count": None,
            "tokenizer": None,
            "degraded": [each.message for each in answer.warnings if each.code == _DEGRADED],
            "duration_ms": lore.duration_ms,
        }
    return None


def _warnings(
    answer: SelectResponse | SillyTavernResponse | ReplicaResponse,
) -> list[dict[str, Any]]:
    """Return the warnings of an answer, without members that do not apply."""
    members = (each._asdict() for each in answer.warnings)
    return [{name: fact for name, fact in each.items() if fact is not None} for each in members]


def _replica_members(decision: ReplicaDecision) -> dict[str, Any]:
    """Return a decision with the id of its placement."""
    facts = decision.facts._asdict().items()
    return {
        "id": f"{decision.book_id}:{decision.uid}",
        **asdict(decision),
        "facts": {name: fact for name, fact in facts if fact is not None},
    }


def _decisions(lore: TurnLore) -> list[dict[str, Any]]:
    answer = lore.answer
    if isinstance(answer, SelectResponse):
        return [decision_members(each) for each in answer.decisions]
    if isinstance(answer, SillyTavernResponse):
        return [asdict(each) for each in answer.verdicts]
    if isinstance(answer, ReplicaResponse):
        return [_replica_members(each) for each in answer.decisions]
    return []
