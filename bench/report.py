"""The report of a run as text, and its figures as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GAP = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target: the measured and the wanted figure, and whether it is met."""

    name: str
    found: str
    wanted: str
    met: bool

    def line(self) -> str:
        """Return the target as the report prints it."""
        mark = "met    " if self.met else "NOT MET"
        return f"{GAP}{mark}{GAP}{self.name}: {self.found} (wanted: {self.wanted})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One table of the report.

    Attributes:
        name: key in the JSON.
        title: heading in the report.
        header, rows: the table; the first column is text, the others are figures.
        figures: the same figures for the JSON.
        note: explanation below the table.
        wrong: names of wrong results.
        targets: of the figures.
    """

    name: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Mapping[str, object]
    note: str = ""
    wrong: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()

    def text(self) -> str:
        """Return the table for a terminal."""
        table = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [self.title, *(_line(row, widths) for row in table)]
        return "\n".join([*lines, *([GAP + self.note] if self.note else [])])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return (GAP + GAP.join([first, *others])).rstrip()


def ms(value: float) -> str:
    """Return milliseconds with three digits or more.

    >>> ms(0.51234), ms(12.3456), ms(14839.1)
    ('0.512', '12.35', '14,839')
    """
    digits = 3 if value < 10 else 2 if value < 100 else 0  # noqa: PLR2004  decades
    return f"{value:,.{digits}f}"


def mib(size_bytes: float) -> str:
    """Return a size in MiB."""
    return f"{size_bytes / 2**20:.1f}"


def kib(size_bytes: float) -> str:
    """Return a size in KiB."""
    return f"{size_bytes / 2**10:,.0f}"
