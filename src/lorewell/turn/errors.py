"""What a turn raises when it can't go on (docs/rules/host.md §10)."""

from __future__ import annotations

from typing import Literal

from lorewell.errors import LorewellError

Stage = Literal["check", "resolve", "select", "place", "budget"]


class TurnError(LorewellError):
    """A turn can't go on; the model was not asked.

    Attributes:
        code: of what went wrong, as the service or the host named it.
        stage: where it went wrong.
        cause: what went wrong; its `details` and `faults` are this error's too.
        turn_id: the request id of the turn. `request_id` is that of the call, where the service
            answered one.
    """

    def __init__(self, stage: Stage, cause: LorewellError, *, turn_id: str) -> None:
        super().__init__(str(cause), faults=cause.faults)
        self.details.update(cause.details)
        vars(self)["code"] = cause.code  # of this one error: its class can't know it
        self.stage = stage
        self.cause = cause
        self.turn_id = turn_id
        self.request_id = cause.request_id

    def members(self) -> dict[str, object]:
        """Return it as JSON-safe members, for callers in other languages and for traces."""
        return {
            "code": self.code,
            "stage": self.stage,
            "cause": str(self.cause),
            "requestId": self.turn_id,
        }
