"""The global variables of a user, which all conversations of this user share.

A user is known by the prompt, the API key and `user` of the request. The variables before the last
turn that changed them are stored too: a swipe or a repetition of this turn starts with them, so it
changes nothing a second time.

Source: docs/rules/host.md §17.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import NamedTuple, Self

from lorewell.app.ports import Transaction
from lorewell.host.carried import VariableValues
from lorewell.model.macro_values import MAX_VARIABLES, MAX_VARIABLES_CHARS


@dataclass(frozen=True, slots=True, kw_only=True)
class UserVariables:
    """The stored global variables of a user.

    Attributes:
        turn: the last turn that changed them.
        before: the variables before this turn.
        after: the variables after it.
    """

    turn: str = ""
    before: VariableValues = field(default_factory=dict)
    after: VariableValues = field(default_factory=dict)

    @classmethod
    def find(cls, tx: Transaction, tenant_id: str, owner: bytes, *, lock: bool = False) -> Self:
        """Return the variables of a user; `lock` blocks other writers of them."""
        body = tx.find_variables(tenant_id, owner, lock=lock)
        return cls() if body is None else cls(**json.loads(body))

    def at(self, turn: str) -> VariableValues:
        """Return the variables that a turn starts with."""
        return self.before if turn == self.turn else self.after


class UserTurn(NamedTuple):
    """A turn of a user.

    Attributes:
        owner: the hash of the user.
        turn: the name of the turn: its conversation and its place there.
        begun: the global variables that it starts with.
        is_given: whether the request gives them.
        is_repeated: whether it is the last turn that changed them.
    """

    owner: bytes
    turn: str
    begun: VariableValues
    is_given: bool
    is_repeated: bool

    def keep(
        self,
        tx: Transaction,
        tenant_id: str,
        ended: VariableValues,
        kept_at: datetime,
        *,
        most: int,
    ) -> None:
        """Store the variables after the turn.

        What other turns of the user stored meanwhile stays, except for variables that this turn
        changed too. A user more than `most` takes the place of the one whose variables changed
        longest ago.
        """
        if self.begun == ended and not self.is_given and not self.is_repeated:
            return
        stored = UserVariables.find(tx, tenant_id, self.owner, lock=True)
        before = self.begun if self.is_given else stored.at(self.turn)
        kept = UserVariables(
            turn=self.turn, before=before, after=_changed(before, self.begun, ended)
        )
        body = json.dumps(asdict(kept)).encode() if kept.before or kept.after else None
        tx.put_variables(tenant_id, self.owner, body, kept_at)
        if body is not None and stored == UserVariables():
            tx.drop_old_variables(tenant_id, most=most)


def _changed(
    before: VariableValues, begun: VariableValues, ended: VariableValues
) -> VariableValues:
    """Return variables with the changes that a turn made to those that it began with."""
    if before == begun:
        return ended
    changes = {name: each for name, each in ended.items() if begun.get(name) != each}
    others = {name: each for name, each in before.items() if name in ended or name not in begun}
    after = {**others, **changes}
    return ended if _exceeds(after) else after


def _exceeds(variables: Mapping[str, str | float]) -> bool:
    texts = (len(each) for each in variables.values() if isinstance(each, str))
    chars = sum(map(len, variables)) + sum(texts)
    return len(variables) > MAX_VARIABLES or chars > MAX_VARIABLES_CHARS
