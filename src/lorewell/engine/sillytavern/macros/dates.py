"""Dates in texts, and the differences between them (docs/rules/sillytavern-macros.md §6)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lorewell.engine.sillytavern.javascript import trim
from lorewell.engine.sillytavern.macros.moments import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    civil_from_days,
    days_from_civil,
)

INVALID: Final = "Invalid date"
_LONGEST: Final = 100
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_ZONES: Final = {"z": 0, "ut": 0, "utc": 0, "gmt": 0, "est": -300, "edt": -240, "cst": -360}
_ZONES_WEST: Final = {"cdt": -300, "mst": -420, "mdt": -360, "pst": -480, "pdt": -420}
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<part>\d{1,9}))?)?"
_OFFSET = r"(?P<zone>[A-Za-z]{1,3}|[+-]\d{2}:?\d{2}|[+-]\d{2})"
_ISO = re.compile(
    rf"(?P<year>\d{{4}})(?:-(?P<month>\d{{2}})(?:-(?P<day>\d{{2}}))?)?"
    rf"(?:[T ](?:{_CLOCK}|(?P<hour_only>\d{{2}}))"
    r"\s*(?P<zone>Z|[+-]\d{2}:?\d{2}|[+-]\d{2})?)?",
    re.ASCII,
)
_COMPACT = re.compile(
    r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})(?:T(?P<clock>\d{4,6}))?", re.ASCII
)
_NAMED = re.compile(
    rf"(?:[A-Za-z]{{3,9}},?\s+)?(?:(?P<name>[A-Za-z]{{3,9}})\.?\s+(?P<day>\d{{1,2}})(?:,\s*|\s+)"
    rf"|(?P<day_first>\d{{1,2}})\s+(?P<name_last>[A-Za-z]{{3,9}})\.?,?\s+)(?P<year>\d{{4}})"
    rf"(?:,?\s+{_CLOCK}\s*(?P<half>[AaPp]\.?[Mm]\.?)?(?:\s*{_OFFSET})?)?",
    re.ASCII,
)
_FILE_DATE = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})\s*@\s*(?P<hour>\d{1,2})h\s*"
    r"(?P<minute>\d{1,2})m\s*(?P<second>\d{1,2})s\s*(?:(?P<thousandths>\d{1,3})ms)?",
    re.ASCII,
)
_SLASHES = re.compile(
    rf"(?:(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}})/(?P<year>\d{{4}})"
    rf"|(?P<year_first>\d{{4}})/(?P<month_second>\d{{1,2}})/(?P<day_last>\d{{1,2}}))"
    rf"(?:,?\s+{_CLOCK}\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?",
    re.ASCII,
)
_LONGEST_MONTH: Final = 31
_NOON: Final = 12


class ReadDate(NamedTuple):
    """A date in a text.

    Attributes:
        milliseconds: since 1970-01-01, in UTC or in local time.
        is_local: whether it names no zone.
    """

    milliseconds: int
    is_local: bool


def read_date(text: str) -> ReadDate | None:
    """Return the date in a text: ISO 8601, RFC 2822, or with an English month; None for others.

    >>> read_date("1970-01-02T00:00:01Z"), read_date("January 1, 1970 0:01")
    (ReadDate(milliseconds=86401000, is_local=False), ReadDate(milliseconds=60000, is_local=True))
    """
    text = trim(text)
    if len(text) > _LONGEST:
        return None
    for pattern in (_ISO, _COMPACT, _NAMED, _SLASHES):
        parts = pattern.fullmatch(text)
        if parts is not None:
            return _date_of(parts.groupdict())
    return None


def read_sent(sent: str | float) -> ReadDate | None:
    """Return when a message was sent; None if that can't be read."""
    if not isinstance(sent, str):
        return ReadDate(int(sent), is_local=False)
    text = trim(sent)
    if len(text) > _LONGEST:
        return None
    if text.isascii() and text.isdigit():
        return ReadDate(int(text), is_local=False)
    parts = _FILE_DATE.fullmatch(text)
    if parts is None:
        return read_date(text)
    date = _date_of(parts.groupdict())
    return None if date is None else date._replace(is_local=False)


def _date_of(parts: dict[str, str | None]) -> ReadDate | None:
    """Return the date of named parts, None if there is no such date."""
    name = parts.get("name") or parts.get("name_last")
    written = parts.get("month") or parts.get("month_second") or 1
    month = int(written) if name is None else _month_of(name)
    day = int(parts.get("day") or parts.get("day_first") or parts.get("day_last") or 1)
    year = int(parts["year"] or parts.get("year_first") or 0)
    if not (1 <= month <= len(_MONTHS)) or not 1 <= day <= _LONGEST_MONTH:
        return None
    days = days_from_civil(year, month, day)
    if civil_from_days(days) != (year, month, day):
        return None
    clock = _clock_of(parts)
    zone = _zone_of(parts.get("zone"))
    if clock is None or zone is None:
        return None
    offset = 0 if zone == _LOCAL else zone
    return ReadDate(days * DAY + clock - offset * MINUTE, is_local=zone == _LOCAL)


def _month_of(name: str) -> int:
    short = name[:3].lower()
    return _MONTHS.index(short) + 1 if short in _MONTHS else 0


def _clock_of(parts: dict[str, str | None]) -> int | None:
    """Return the milliseconds since midnight, None if there is no such time."""
    digits = parts.get("clock")
    if digits:
        parts = {"hour": digits[:2], "minute": digits[2:4], "second": digits[4:]}
    hour = int(parts.get("hour") or parts.get("hour_only") or 0)
    half = parts.get("half")
    if half is not None:
        if not 1 <= hour <= _NOON:
            return None
        hour = hour % _NOON + (_NOON if half[0] in "pP" else 0)
    minute, second = int(parts.get("minute") or 0), int(parts.get("second") or 0)
    part = (parts.get("part") or "").ljust(3, "0")[:3]
    thousandths = int(parts.get("thousandths") or part)
    if hour > 24 or minute > 59 or second > 59:  # noqa: PLR2004
        return None
    return hour * HOUR + minute * MINUTE + second * SECOND + thousandths


_LOCAL: Final = 10_000  # minutes; no zone is as far off


def _zone_of(zone: str | None) -> int | None:
    """Return a zone's offset in minutes, `_LOCAL` without one, None for an unknown name."""
    if zone is None:
        return _LOCAL
    if zone[0] not in "+-":
        return {**_ZONES, **_ZONES_WEST}.get(zone.lower())
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return -minutes if zone[0] == "-" else minutes
