"""The entries of a chat turn and the decisions on them, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from lorewell.cli.hints import name_hint
from lorewell.engine.tokens import TokenCounter
from lorewell.model import ReplicaResponse, SelectResponse, SillyTavernResponse
from lorewell.model.replica import ReplicaDecision, ReplicaWarning
from lorewell.model.warning import MISSING, TurnWarning
from lorewell.turn import PreparedTurn

_MAX_LINES = 200
_MAX_WARNINGS = 10


def injected_lines(prepared: PreparedTurn, tokens: TokenCounter) -> list[str]:
    """Return a line for each injected entry: name, reason, key, tokens, place."""
    if prepared.prompt is None:
        return []
    if prepared.lore.skipped is not None:
        return ["no book is bound to this prompt"]
    summaries = dict(_entry_summaries(prepared, tokens))
    lines = []
    for each in prepared.prompt.placements:
        place: str = each.position
        if each.position == "at_depth":
            place = f"at depth {each.depth}"
        elif each.message_index is None:
            place = "the prompt has no place for it"
        lines.append(f"+ {summaries.get(each.id, each.id)}, {place}")
    answer = prepared.lore.answer
    begun = answer.conversation if isinstance(answer, SillyTavernResponse) else None
    if begun is not None and begun.state == "lost":
        lines.append("! the place in the conversation is lost: timed effects begin anew")
    return lines or ["no entries apply"]


def warning_lines(prepared: PreparedTurn) -> list[str]:
    """Return a line for each warning of the turn; one for all entries without a name."""
    answer = prepared.lore.answer
    warnings = () if answer is None else answer.warnings
    names = [each for each in warnings if each.code == MISSING and _lacks_name(each)]
    lines = list(dict.fromkeys(each.message for each in warnings if each not in names))
    count = len(names)
    if count:
        lines.append(name_hint(count))
    more = len(lines) - _MAX_WARNINGS
    listed = lines if more <= 0 else [*lines[:_MAX_WARNINGS], f"and {more} more"]
    return [f"! {line}" for line in listed]


def _entry_summaries(prepared: PreparedTurn, tokens: TokenCounter) -> Iterator[tuple[str, str]]:
    answer = prepared.lore.answer
    if isinstance(answer, SelectResponse):
        decisions = {each.id: each for each in answer.decisions}
        for block in answer.blocks:
            decision = decisions[block.id]
            name = block.title or block.entry_id
            why = _why(block.reason, decision.facts.key)
            yield block.id, f"{name}: {why}, {decision.cost} tokens"
    elif isinstance(answer, SillyTavernResponse):
        for entry in answer.activated:
            cost = tokens.count(entry.content)
            yield entry.id, f"{entry.id}: {_why(entry.reason, entry.key)}, {cost} tokens"
    elif isinstance(answer, ReplicaResponse):
        verdicts = {(each.book_id, each.uid): each for each in answer.decisions}
        for active in answer.entries:
            why = _replica_why(verdicts[active.book_id, active.uid])
            cost = tokens.count(active.content)
            yield f"{active.book_id}:{active.uid}", f"{active.uid}: {why}, {cost} tokens"


def _why(reason: str, key: str | None) -> str:
    return reason if key is None else f"{reason} {key!r}"


def _replica_why(decision: ReplicaDecision) -> str:
    keys = decision.facts.keys
    return _why(decision.reason, keys[0] if keys else None)


def decision_lines(prepared: PreparedTurn | None) -> list[str]:
    """Return a line for each entry of the books: the decision on it."""
    answer = None if prepared is None else prepared.lore.answer
    if isinstance(answer, SelectResponse):
        lines = [
            f"{each.entry_id}: {_why(each.reason, each.facts.key)}"
            + ("" if each.detail is None else f" ({each.detail})")
            for each in answer.decisions
        ]
    elif isinstance(answer, SillyTavernResponse):
        lines = [f"{each.id}: {each.reason}" for each in answer.verdicts]
    elif isinstance(answer, ReplicaResponse):
        lines = [
            f"{each.uid}: {_replica_why(each)}"
            + ("" if each.detail is None else f" ({each.detail})")
            for each in answer.decisions
        ]
    else:
        return ["no turn yet, or no book is bound"]
    more = len(lines) - _MAX_LINES
    return lines if more <= 0 else [*lines[:_MAX_LINES], f"and {more} more"]


def _lacks_name(warning: TurnWarning | ReplicaWarning) -> bool:
    return isinstance(warning, ReplicaWarning) or warning.missing in {None, "char", "user"}
