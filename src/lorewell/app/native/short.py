"""Which native turns are short enough for the event loop, and the step budget of these turns."""

from __future__ import annotations

from typing import NoReturn

from lorewell.app.computing.pool import ComputeLimits
from lorewell.engine.steps import Steps
from lorewell.model import SelectRequest

SHORT_MS = 2.0
# A thread has to wait for the interpreter again and again, 5 ms at a time. Reading its CPU time
# instead would cost up to a fifth of a small selection.
SHORT_IN_THREAD_MS = 15.0
_SHORT_CHARS = 20_000


class NotShortError(Exception):
    """A turn that was expected to be short takes longer."""


def may_be_short(request: SelectRequest) -> bool:
    """Return whether nothing in the request alone makes the turn long."""
    return (
        request.strategy == "rules"
        and request.explain != "full"
        and len(request.query) + sum(len(each.content) for each in request.history) <= _SHORT_CHARS
    )


def short_steps(limits: ComputeLimits) -> Steps:
    """Return the step budget of a turn on the event loop.

    It raises NotShortError after a few milliseconds.
    """
    return Steps(limits.max_steps, max_chars=limits.max_chars, watch=_refuse)


def _refuse() -> NoReturn:
    raise NotShortError
