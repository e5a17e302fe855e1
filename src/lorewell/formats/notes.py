"""Collecting what an import has to say, in the order in which it was found."""

from __future__ import annotations

from collections import Counter

from lorewell.model.imports import ImportNotice

MAX_NOTICES_A_CODE = 5_000  # as many as a book has entries; a hostile file could make millions
_MAX_STEP_CHARS = 80  # a member's name can be megabytes long
_MAX_MESSAGE_CHARS = 1_000


def place(*steps: str | int) -> str:
    """Return where something is, for people: a JSON pointer whose long names are cut.

    >>> place("entries", 3, "a/b")
    '/entries/3/a~1b'
    """
    named = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join("/" + cut(step, _MAX_STEP_CHARS) for step in named) or "/"


def cut(text: str, limit: int) -> str:
    """Return the text, or its beginning and an ellipsis where it is longer than the limit."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


class Notes:
    """Takes notices in; gives them out as warnings of the report."""

    def __init__(self) -> None:
        self._notices: list[ImportNotice] = []
        self._counts: Counter[str] = Counter()

    def add(self, code: str, message: str, entry_id: str | None = None) -> None:
        """Note that something was odd or repaired; after too many of a code they are counted."""
        self._counts[code] += 1
        if self._counts[code] <= MAX_NOTICES_A_CODE:
            short = cut(message, _MAX_MESSAGE_CHARS)
            self._notices.append(ImportNotice(entry_id=entry_id, code=code, message=short))

    def extend(self, other: Notes) -> None:
        """Take over all that other notes hold."""
        for notice in other.warnings():
            self.add(notice.code, notice.message, notice.entry_id)

    def warnings(self) -> tuple[ImportNotice, ...]:
        """Return all notices in order; at the end how many more there were of a code."""
        more = tuple(
            ImportNotice(code=code, message=f"and {count - MAX_NOTICES_A_CODE} more")
            for code, count in self._counts.items()
            if count > MAX_NOTICES_A_CODE
        )
        return (*self._notices, *more)
