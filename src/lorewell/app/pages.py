"""Parts of lists, and the cursors that lead from one to the next."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime

from lorewell.errors import Fault, ValidationFailedError


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which part of a list: at most `limit`, from where `cursor` says."""

    limit: int
    cursor: str | None = None


def cursor_of(time: datetime, *names: str) -> str:
    """Return the cursor of a list that is sorted by a time, then by names."""
    text = json.dumps([time.isoformat(), *names])
    return base64.urlsafe_b64encode(text.encode()).decode()


def parse_cursor(cursor: str, *, names: int) -> tuple[datetime, list[str]]:
    """Return the time and the names that a cursor holds.

    Raises:
        ValidationFailedError: it is none of a list that is sorted by so many names.
    """
    try:
        written, *found = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        time = datetime.fromisoformat(written)
    except (ValueError, TypeError, binascii.Error) as error:
        raise bad_cursor() from error
    if time.tzinfo is None or len(found) != names or not all(isinstance(x, str) for x in found):
        raise bad_cursor()
    return time, found


def parse_number(cursor: str) -> int:
    """Return the number that a cursor is.

    Raises:
        ValidationFailedError: it is none.
    """
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < len(str(2**31))):
        raise bad_cursor()
    return int(cursor)


def bad_cursor() -> ValidationFailedError:
    """Return the error for a cursor of another list, or of none."""
    fault = Fault("", "is no cursor of this list", parameter="cursor")
    return ValidationFailedError.at(fault)
