"""Pages of lists, and the cursors that lead from one page to the next."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from lorewell.errors import Fault, ValidationFailedError

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A page: at most `limit` items, after those that `cursor` stands for."""

    limit: int
    cursor: str | None = None


def cut_page(
    rows: Sequence[Row], page: PageRequest, cursor: Callable[[Row], str]
) -> tuple[Sequence[Row], str | None]:
    """Return the rows of a page, and the cursor of the next page if there is one.

    Args:
        rows: up to `page.limit + 1` rows; the last one only shows that there is a next page.
        page: the page that was requested.
        cursor: makes the cursor that follows a row.
    """
    shown = rows[: page.limit]
    return shown, cursor(shown[-1]) if len(rows) > page.limit else None


def cursor_of(time: datetime, *names: str) -> str:
    """Return the cursor of a list that is sorted by a time, then by names."""
    text = json.dumps([time.isoformat(), *names])
    return base64.urlsafe_b64encode(text.encode()).decode()


def parse_cursor(cursor: str, *, names: int) -> tuple[datetime, list[str]]:
    """Return the time and the names that a cursor holds.

    Raises:
        ValidationFailedError: it does not hold a time and this many names.
    """
    try:
        written, *found = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        time = datetime.fromisoformat(written)
    except (ValueError, TypeError, binascii.Error) as error:
        raise _bad_cursor() from error
    if time.tzinfo is None or len(found) != names or not all(isinstance(x, str) for x in found):
        raise _bad_cursor()
    return time, found


def parse_number(cursor: str) -> int:
    """Return the number that a cursor holds.

    Raises:
        ValidationFailedError: it is not a number of a revision.
    """
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < len(str(2**31))):
        raise _bad_cursor()
    return int(cursor)


def _bad_cursor() -> ValidationFailedError:
    """Return the error for a cursor that this list did not issue."""
    fault = Fault("", "is not a cursor of this list", parameter="cursor")
    return ValidationFailedError.at(fault)
