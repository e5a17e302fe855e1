"""Rules for chance, scan depth and timers."""

from __future__ import annotations

from typing import Final

from lorewell.insight.lint.judged import JudgedBook, JudgedEntry
from lorewell.insight.lint.report import Report

_LONG_CHAT: Final = 1_000  # messages


def check_timing(book: JudgedBook, report: Report) -> None:
    """Report entries that chance, depth or timers keep out, and timers without effect."""
    for entry in book.entries:
        if entry.blocked:
            continue
        if entry.probability <= 0:
            report.add(
                "probability-zero", "The probability is 0: it never fires.", entry, at="probability"
            )
        _check_depth(book, entry, report)
        if book.settings.policy == "sillytavern":
            _check_timers(entry, report)


def _check_depth(book: JudgedBook, entry: JudgedEntry, report: Report) -> None:
    settings = book.settings
    if settings.policy == "replica" or entry.always or not entry.keys:
        return
    depth = settings.scan_depth if entry.scan_depth is None else entry.scan_depth
    if depth > 0 or (settings.policy == "native" and entry.fed and settings.recursion):
        return
    text = "The scan depth is 0: no message is searched for the entry's keys."
    report.add("scan-depth-zero", text, entry, at="scan_depth")


def _check_timers(entry: JudgedEntry, report: Report) -> None:
    if entry.delay > _LONG_CHAT:
        text = f"The entry waits for message {entry.delay:.0f}; chats are rarely as long."
        report.add(
            "delay-unreachable",
            text,
            entry,
            at="sillytavern/delay",
            figures={"delay": entry.delay},
        )
    if entry.sticky and entry.cooldown and entry.groups:
        text = (
            "The cooldown removes the sticky entry from its own group from its second turn on, "
            "and its rivals with it."
        )
        report.add("timers-contradict", text, entry, at="sillytavern/cooldown")
    if entry.always and entry.sticky:
        text = "The entry is constant, so sticky has no effect."
        report.add("timer-without-effect", text, entry, at="sillytavern/sticky")
    for name in ("sticky", "cooldown", "delay"):
        turns = getattr(entry, name)
        covered = name == "cooldown" and entry.sticky
        if turns == 1 and not covered and not (name == "sticky" and entry.always):
            text = f"{name} 1 has no effect: it ends before the next turn."
            report.add("timer-without-effect", text, entry, at=f"sillytavern/{name}")
