"""Short words for tests of the policy `replica`: say entries and a turn, read an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lorewell.engine.replica import RagScores, activate, compile_world
from lorewell.engine.replica.activate import NO_SCORES
from lorewell.model.parse import parse_model
from lorewell.model.replica import ReplicaDecision, ReplicaRequest, ReplicaResponse

Document = dict[str, Any]


def trigger(**pairs: object) -> Document:
    """Return a `trigger_config` in which each trigger named is on, with these settings."""
    return {"triggers": {kind: [True, settings] for kind, settings in pairs.items()}}


def entry(uid: str, config: Document, **members: object) -> Document:
    """Return an entry; its content is `C-{uid}` unless given."""
    return {"uid": uid, "content": f"C-{uid}", "trigger_config": config, **members}


def constant(uid: str, **members: object) -> Document:
    return entry(uid, trigger(constant=None), **members)


def keyed(
    uid: str, *keys: str, settings: Mapping[str, object] | None = None, **m: object
) -> Document:
    return entry(uid, trigger(keyword={"key": list(keys), **(settings or {})}), **m)


def conditional(uid: str, *texts: str, **members: object) -> Document:
    listed = [{"text": text} for text in texts]
    return entry(uid, trigger(condition={"conditions": listed}), **members)


def turn(
    entries: Iterable[Document],
    mes: str = "",
    *history: str,
    table: Mapping[str, object] | None = None,
    scores: RagScores = NO_SCORES,
    **members: object,
) -> ReplicaResponse:
    """Return what one global book `b` of these entries gives."""
    document = {
        "worldBookData": {"globalBooks": [{"id": "b", "name": "雾隐渡"}]},
        "mes": mes,
        "chatHistory": list(history),
        "dynamicTableData": {"currentValues": dict(table or {})},
        **members,
    }
    world = compile_world({"name": "雾隐渡", "entries": list(entries)}, book_id="b")
    return activate({"b": world}, parse_model(ReplicaRequest, document), scores=scores)


def active(response: ReplicaResponse) -> list[str]:
    """Return the uids of the active entries, in their order."""
    return [each.uid for each in response.entries]


def decision(response: ReplicaResponse, uid: str) -> ReplicaDecision:
    """Return the decision on the one entry of that uid."""
    (found,) = [each for each in response.decisions if each.uid == uid]
    return found


def warned(response: ReplicaResponse) -> list[tuple[str, str | None]]:
    """Return the codes of the warnings, each with the entry."""
    return [(warning.code, warning.uid) for warning in response.warnings]
