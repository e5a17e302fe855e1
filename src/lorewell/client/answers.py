"""Parsers for the bodies of successful answers. They ignore members of newer versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter

from lorewell.model import (
    AssembleResponse,
    ReplayResponse,
    ReplicaResponse,
    SelectResponse,
    SillyTavernResponse,
)
from lorewell.model.chat_replay import BudgetPlan, ChatReplay, ReplayDiff

Model = TypeVar("Model", bound=BaseModel)

_DOCUMENT = TypeAdapter(dict[str, object])
_SELECTION = TypeAdapter(SelectResponse)
_ACTIVATION = TypeAdapter(SillyTavernResponse)
_REPLAY = TypeAdapter(ReplayResponse)
_REPLICA = TypeAdapter(ReplicaResponse)
_CHAT_REPLAY = TypeAdapter(ChatReplay)
_REPLAY_DIFF = TypeAdapter(ReplayDiff)
_PLAN = TypeAdapter(BudgetPlan)
_PROMPT = TypeAdapter(AssembleResponse)


def model(kind: type[Model]) -> Callable[[bytes], Model]:
    """Return a parser of bodies into this model; it raises ValueError for an invalid body."""
    return lambda body: kind.model_validate_json(body, extra="ignore")


def selection(body: bytes) -> SelectResponse:
    """Return the selection in a body.

    Raises:
        ValueError: the body is not a selection.
    """
    return _SELECTION.validate_json(body)


def activation(body: bytes) -> SillyTavernResponse:
    """Return the answer of the policy `sillytavern` in a body.

    Raises:
        ValueError: the body is not such an answer.
    """
    return _ACTIVATION.validate_json(body)


def replica(body: bytes) -> ReplicaResponse:
    """Return the answer of the policy `replica` in a body.

    Raises:
        ValueError: the body is not such an answer.
    """
    return _REPLICA.validate_json(body)


def replayed(body: bytes) -> ReplayResponse:
    """Return the replay in a body.

    Raises:
        ValueError: the body is not a replay.
    """
    return _REPLAY.validate_json(body)


def chat_replay(body: bytes) -> ChatReplay:
    """Return the chat in a body, turn by turn.

    Raises:
        ValueError: the body is not such an answer.
    """
    return _CHAT_REPLAY.validate_json(body)


def replay_diff(body: bytes) -> ReplayDiff:
    """Return the difference of two replays in a body.

    Raises:
        ValueError: the body is not such an answer.
    """
    return _REPLAY_DIFF.validate_json(body)


def budget_plan(body: bytes) -> BudgetPlan:
    """Return the plan in a body.

    Raises:
        ValueError: the body is not a plan.
    """
    return _PLAN.validate_json(body)


def prompt(body: bytes) -> AssembleResponse:
    """Return the assembled prompt in a body.

    Raises:
        ValueError: the body is not an assembled prompt.
    """
    return _PROMPT.validate_json(body)


def document(body: bytes) -> dict[str, object]:
    """Return the JSON object in a body.

    Raises:
        ValueError: the body is not a JSON object.
    """
    return _DOCUMENT.validate_json(body)


def text(body: bytes) -> str:
    """Return a body of plain text."""
    return body.decode()


def nothing(body: bytes) -> None:
    """Ignore the body: the status is the whole answer."""
    del body
