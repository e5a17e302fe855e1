"""The error of a turn that can't go on (docs/rules/host.md §10)."""

from __future__ import annotations

from typing import Literal

from lorewell.errors import LorewellError

Stage = Literal["check", "resolve", "select", "place", "budget"]


class TurnError(LorewellError):
    """A turn can't go on; the model was not called.

    Attributes:
        code: the code of the cause, from the service or the host.
        stage: the step that failed.
        cause: the original error; this one has the same `details` and `faults`.
        turn_id: the request id of the turn. `request_id` is that of the failed call, if the service
            answered it.
    """

    def __init__(self, stage: Stage, cause: LorewellError, *, turn_id: str) -> None:
        super().__init__(str(cause), faults=cause.faults)
        self.details.update(cause.details)
        vars(self)["code"] = cause.code  # on the instance: no class has this code
        self.stage = stage
        self.cause = cause
        self.turn_id = turn_id
        self.request_id = cause.request_id

    def members(self) -> dict[str, object]:
        """Return the error as JSON-safe members, for callers in other languages and for traces."""
        return {
            "code": self.code,
            "stage": self.stage,
            "cause": str(self.cause),
            "requestId": self.turn_id,
        }
