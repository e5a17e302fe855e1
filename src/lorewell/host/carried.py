"""What a turn under SillyTavern's rules hands on to the next turn of its chat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from lorewell.model import ActivateRequest, SillyTavernResponse
from lorewell.model.macro_values import VariableScope

VariableValues = Mapping[str, str | float]


class CarriedState(NamedTuple):
    """The state after a turn.

    Attributes:
        timed_state: the timed effects.
        variables: the variables of macros, by scope.
        chat_hash: the hash of the chat, by which `{{pick}}` picks; None if no macro asked for it.
    """

    timed_state: Mapping[str, Any]
    variables: Mapping[VariableScope, VariableValues] = {}
    chat_hash: int | None = None

    @classmethod
    def after(cls, answer: SillyTavernResponse) -> Self:
        """Return the state after a turn."""
        variables = {scope: each for scope, each in answer.variables.items() if each}
        return cls(answer.timed_state, variables, answer.chat_hash)

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Return what `dump` wrote; states of earlier versions have only timed effects."""
        stored = json.loads(body)
        return cls(stored[0], **stored[1]) if isinstance(stored, list) else cls(stored)

    def dump(self) -> bytes:
        """Return it as JSON."""
        carried = {"variables": self.variables, "chat_hash": self.chat_hash}
        given = {name: value for name, value in carried.items() if value}
        return json.dumps([self.timed_state, given] if given else self.timed_state).encode()

    def with_globals(self, variables: VariableValues) -> Self:
        """Return it with other global variables."""
        changed: dict[VariableScope, VariableValues] = {**self.variables, "global": variables}
        return self._replace(variables={scope: each for scope, each in changed.items() if each})

    def begin(self, request: ActivateRequest) -> ActivateRequest:
        """Return a turn that starts with this state.

        A scope of variables and a hash of the chat that the turn gives take precedence.
        """
        update: dict[str, object] = {"timed_state": {**self.timed_state}}
        if self.variables:
            update["variables"] = {**self.variables, **request.given_variables}
            if request.scene is not None:  # they are in their own field now
                update["scene"] = request.scene.model_copy(update={"variables": None})
        if self.chat_hash is not None and request.macros.chat_hash is None:
            update["macros"] = request.macros.model_copy(update={"chat_hash": self.chat_hash})
        return request.model_copy(update=update)
