"""Collects the warnings, losses and quarantine of an import, in the order of the file."""

from __future__ import annotations

from collections import Counter
from typing import Final

from lorewell.engine.steps import Steps
from lorewell.formats.losses import loss_of
from lorewell.formats.quarantine import SuspectSpan
from lorewell.model.imports import ImportNotice, Loss, LossReason, Quarantined

MAX_IMPORT_STEPS: Final = 10_000_000  # four times the work of the largest real file
MAX_NOTICES_A_CODE = 5_000  # one for each entry of a book; a hostile file could cause millions
MAX_REPORT_CHARS: Final = 8_000_000  # of the texts of a report, without the names of its members
_MAX_STEP_CHARS = 80  # the name of a member can have megabytes
_MAX_MESSAGE_CHARS = 1_000
_SHOWN_CHARS = 80  # of a text in quarantine


def place(*steps: str | int) -> str:
    """Return a JSON pointer with long names cut, for messages.

    >>> place("entries", 3, "a/b")
    '/entries/3/a~1b'
    """
    named = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join("/" + cut(step, _MAX_STEP_CHARS) for step in named) or "/"


def cut(text: str, limit: int) -> str:
    """Return the text, cut to the limit with an ellipsis if it is longer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


class ImportNotes:
    """Collects the lists of an import report.

    Attributes:
        steps: counts the work of reading the file.
    """

    def __init__(self, steps: Steps | None = None) -> None:
        """Start empty; without `steps`, reading may take `MAX_IMPORT_STEPS`."""
        self.steps = Steps(MAX_IMPORT_STEPS) if steps is None else steps
        self._notices: list[ImportNotice] = []
        self._losses: list[Loss] = []
        self._quarantined: list[Quarantined] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._kept: Counter[tuple[str, str]] = Counter()
        self._chars = 0

    def is_full(self, code: str) -> bool:
        """Return whether a further notice of this code would only be counted."""
        return self._kept["warnings", code] >= MAX_NOTICES_A_CODE

    def add(self, code: str, message: str, entry_id: str | None = None) -> None:
        """Add a warning; after too many of one code they are only counted."""
        short = cut(message, _MAX_MESSAGE_CHARS)
        if self._has_room("warnings", code, len(short)):
            self._notices.append(ImportNotice(entry_id=entry_id, code=code, message=short))

    def lose(self, value: object, why: LossReason, at: str) -> None:
        """Add the loss of a value of the file at a JSON pointer."""
        if self._has_room("losses", why, len(at)):
            self._losses.append(loss_of(value, why, at))

    def lose_more(self, count: int, why: LossReason) -> None:
        """Count losses that are not listed."""
        self._counts["losses", why] += count

    def quarantine(self, suspect: SuspectSpan, *, entry_id: str, at: str) -> None:
        """Add a suspicious part of an entry's text; `at` is a JSON pointer to the text."""
        start, end = suspect.span
        chars = len(at) + min(end - start, _SHOWN_CHARS)
        if self._has_room("quarantine", suspect.what, chars):
            self._quarantined.append(
                # Not validated: a file can cause thousands of them, and these values are valid.
                Quarantined.model_construct(
                    entry_id=entry_id,
                    pointer=at,
                    what=suspect.what,
                    span=suspect.span,
                    text=suspect.text[start : min(end, start + _SHOWN_CHARS)],
                )
            )

    def _has_room(self, kind: str, code: str, chars: int) -> bool:
        """Count an item, and return whether the report has room to list it."""
        self._counts[kind, code] += 1
        if self._kept[kind, code] >= MAX_NOTICES_A_CODE or self._chars + chars > MAX_REPORT_CHARS:
            return False
        self._kept[kind, code] += 1
        self._chars += chars
        return True

    def extend(self, other: ImportNotes) -> None:
        """Add the warnings of other notes."""
        for notice in other.warnings():
            self.add(notice.code, notice.message, notice.entry_id)

    def warnings(self) -> tuple[ImportNotice, ...]:
        """Return all warnings in order, followed by the counts of those not listed."""
        more = []
        for (kind, code), count in self._counts.items():
            left = count - self._kept[kind, code]
            if left > 0 and kind == "warnings":
                more.append(ImportNotice(code=code, message=f"and {left} more"))
            elif left > 0:
                message = f"{kind}: {left} more of the kind {code}"
                more.append(ImportNotice(code=f"more_{kind}", message=message))
        return (*self._notices, *more)

    def losses(self) -> tuple[Loss, ...]:
        """Return the losses in order."""
        return tuple(self._losses)

    def quarantined(self) -> tuple[Quarantined, ...]:
        """Return what is in quarantine, in order."""
        return tuple(self._quarantined)
