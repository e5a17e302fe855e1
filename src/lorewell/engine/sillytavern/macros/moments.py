"""The clock, and times as moment.js writes them in English (docs/rules/sillytavern-macros.md §6).

Plain arithmetic on milliseconds: the engine has no clock and knows no zones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

from lorewell.model.macro_values import Moment

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_LONG_FORMATS: Final = {
    "LT": "h:mm A",
    "LTS": "h:mm:ss A",
    "L": "MM/DD/YYYY",
    "LL": "MMMM D, YYYY",
    "LLL": "MMMM D, YYYY h:mm A",
    "LLLL": "dddd, MMMM D, YYYY h:mm A",
    "l": "M/D/YYYY",
    "ll": "MMM D, YYYY",
    "lll": "MMM D, YYYY h:mm A",
    "llll": "ddd, MMM D, YYYY h:mm A",
}
_LONG_TOKENS = re.compile(r"\[[^\[\]]*+\]|\\.|LTS|LT|L{1,4}|l{1,4}")
_TOKENS = re.compile(
    r"\[([^\[\]]*+)\]|YYYY|YY|GGGG|GG|Q|MMMM|MMM|MM|Mo|M|DDDD|DDD|DD|Do|D|dddd|ddd|dd|do|d"
    r"|E|e|WW|Wo|W|HH|H|hh|h|kk|k|A|a|mm|m|ss|s|SSS|SS|S|X|x|ZZ|Z"
)
_TEENS: Final = range(11, 14)
_HOURS_BEFORE: Final = 16  # an offset that is smaller counts hours, others count minutes


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to a date of the Gregorian calendar."""
    year -= month <= 2  # noqa: PLR2004  the year begins in March here
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1  # noqa: PLR2004
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day, given the days from 1970-01-01."""
    days += 719468
    era = days // 146097
    of_era = days - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9  # noqa: PLR2004
    return year + era * 400 + (month <= 2), month, day  # noqa: PLR2004


class LocalTime:
    """A moment as the local clock shows it."""

    def __init__(self, moment: Moment) -> None:
        """Take a moment and its offset from UTC."""
        self.moment = moment
        local = moment.milliseconds + moment.offset_minutes * MINUTE
        self.days, of_day = divmod(local, DAY)
        self.year, self.month, self.day = civil_from_days(self.days)
        self.hour, rest = divmod(of_day, HOUR)
        self.minute, rest = divmod(rest, MINUTE)
        self.second, self.millisecond = divmod(rest, SECOND)
        self.weekday = (self.days + 4) % 7  # 0 is Sunday

    @cached_property
    def iso_week(self) -> tuple[int, int]:
        """The year and the number of the week by ISO 8601."""
        thursday = self.days - (self.weekday + 6) % 7 + 3
        year = civil_from_days(thursday)[0]
        return year, (thursday - days_from_civil(year, 1, 1)) // 7 + 1

    @property
    def day_of_year(self) -> int:
        """The number of the day in its year, from 1."""
        return self.days - days_from_civil(self.year, 1, 1) + 1

    @property
    def hour_of_twelve(self) -> int:
        """The hour from 1 to 12."""
        return self.hour % 12 or 12

    def offset(self, separator: str) -> str:
        """Return the offset from UTC, such as `+09:00`."""
        minutes = self.moment.offset_minutes
        hours, rest = divmod(abs(minutes), 60)
        return f"{'-' if minutes < 0 else '+'}{hours:02}{separator}{rest:02}"

    def format(self, pattern: str) -> str:
        """Return the time in a format of moment.js; "" is ISO 8601."""
        if not pattern:
            pattern = "YYYY-MM-DD[T]HH:mm:ssZ"
        whole = _LONG_TOKENS.sub(lambda token: _LONG_FORMATS.get(token[0], token[0]), pattern)
        return _TOKENS.sub(self._write, whole)

    def _write(self, token: re.Match[str]) -> str:
        return token[1] if token[1] is not None else _WRITERS[token[0]](self)


def _ordinal(number: int) -> str:
    last = 0 if number % 100 in _TEENS else number % 10
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


_WRITERS: Mapping[str, Callable[[LocalTime], str]] = {
    "YYYY": lambda t: f"{t.year:04}",
    "YY": lambda t: f"{t.year % 100:02}",
    "GGGG": lambda t: f"{t.iso_week[0]:04}",
    "GG": lambda t: f"{t.iso_week[0] % 100:02}",
    "Q": lambda t: str((t.month + 2) // 3),
    "M": lambda t: str(t.month),
    "Mo": lambda t: _ordinal(t.month),
    "MM": lambda t: f"{t.month:02}",
    "MMM": lambda t: _MONTHS[t.month - 1][:3],
    "MMMM": lambda t: _MONTHS[t.month - 1],
    "D": lambda t: str(t.day),
    "Do": lambda t: _ordinal(t.day),
    "DD": lambda t: f"{t.day:02}",
    "DDD": lambda t: str(t.day_of_year),
    "DDDD": lambda t: f"{t.day_of_year:03}",
    "d": lambda t: str(t.weekday),
    "do": lambda t: _ordinal(t.weekday),
    "dd": lambda t: _DAYS[t.weekday][:2],
    "ddd": lambda t: _DAYS[t.weekday][:3],
    "dddd": lambda t: _DAYS[t.weekday],
    "e": lambda t: str(t.weekday),
    "E": lambda t: str(t.weekday or 7),
    "W": lambda t: str(t.iso_week[1]),
    "Wo": lambda t: _ordinal(t.iso_week[1]),
    "WW": lambda t: f"{t.iso_week[1]:02}",
    "H": lambda t: str(t.hour),
    "HH": lambda t: f"{t.hour:02}",
    "h": lambda t: str(t.hour_of_twelve),
    "hh": lambda t: f"{t.hour_of_twelve:02}",
    "k": lambda t: str(t.hour or 24),
    "kk": lambda t: f"{t.hour or 24:02}",
    "A": lambda t: "AM" if t.hour < 12 else "PM",  # noqa: PLR2004
    "a": lambda t: "am" if t.hour < 12 else "pm",  # noqa: PLR2004
    "m": lambda t: str(t.minute),
    "mm": lambda t: f"{t.minute:02}",
    "s": lambda t: str(t.second),
    "ss": lambda t: f"{t.second:02}",
    "S": lambda t: str(t.millisecond // 100),
    "SS": lambda t: f"{t.millisecond // 10:02}",
    "SSS": lambda t: f"{t.millisecond:03}",
    "X": lambda t: str(t.moment.milliseconds // SECOND),
    "x": lambda t: str(t.moment.milliseconds),
    "Z": lambda t: t.offset(":"),
    "ZZ": lambda t: t.offset(""),
}


def at_offset(moment: Moment, offset: int) -> Moment:
    """Return a moment at an offset from UTC: hours below 16, minutes from 16 on (an oddity)."""
    minutes = offset * 60 if abs(offset) < _HOURS_BEFORE else offset
    return Moment(moment.milliseconds, minutes)


def in_words(milliseconds: float) -> str:
    """Return a span of time in words, without a direction.

    >>> in_words(44 * SECOND), in_words(90 * MINUTE), in_words(40 * DAY)
    ('a few seconds', '2 hours', 'a month')
    """
    span = abs(milliseconds)
    days = span / DAY
    months = days * 4800 / 146097
    for count, words, below in (
        (_rounded(span / SECOND), ("a few seconds", "a few seconds"), 45),
        (_rounded(span / MINUTE), ("a minute", "minutes"), 45),
        (_rounded(span / HOUR), ("an hour", "hours"), 22),
        (_rounded(days), ("a day", "days"), 26),
        (_rounded(months), ("a month", "months"), 11),
    ):
        if count < below:
            return _counted(count, *words)
    return _counted(_rounded(months / 12), "a year", "years")


def _rounded(number: float) -> int:
    return int(number + 0.5)


def _counted(count: int, one: str, many: str) -> str:
    return one if count <= 1 or one == many else f"{count} {many}"
