"""Rules for secondary keys."""

from __future__ import annotations

from lorewell.insight.lint.judged import JudgedBook, JudgedEntry, JudgedKey
from lorewell.insight.lint.keys import implies
from lorewell.insight.lint.report import Report, listed, shown


def check_logic(book: JudgedBook, report: Report) -> None:
    """Report secondary keys that exclude every hit, exclude nothing, or do not count."""
    for entry in book.entries:
        if entry.blocked or entry.always:
            continue
        if entry.spec.secondary_keys and not entry.secondary:
            text = "The secondary keys do not count: the entry is not selective."
            report.add("secondary-ignored", text, entry, at="secondary_keys")
        elif entry.secondary and entry.keys:
            _check_secondary(book, entry, report)


def _check_secondary(book: JudgedBook, entry: JudgedEntry, report: Report) -> None:
    book.steps.spend("lint", len(entry.keys) * len(entry.secondary))
    if entry.logic is None:
        report.add("secondary-excludes-key", "The logic does not exist.", entry, at="logic")
        return
    blank = next((key for key in entry.secondary if not key.text), None)
    if entry.logic == "and_all" and blank is not None and book.settings.policy == "sillytavern":
        text = "An empty secondary key is never found, and all of them must be."
        report.add("secondary-excludes-key", text, entry, at=blank.at)
        return
    plain = [key for key in entry.secondary if key.wanted]
    counted = [key for key in entry.secondary if key.wanted or key.regex or key.has_macro]
    implied = {
        key: [other for other in plain if implies(book, key, other)] for key in entry.plain_keys
    }
    if entry.logic in ("not_any", "not_all"):
        blocked = [
            key
            for key, found in implied.items()
            if found and (entry.logic == "not_any" or len(found) == len(counted))
        ]
        if blocked:
            _report_excluded(entry, blocked, implied[blocked[0]][0], report)
    elif implied and len(implied) == len(entry.keys):
        enough = 1 if entry.logic == "and_any" else len(counted)
        if all(len(found) >= enough for found in implied.values()) and counted:
            text = "The secondary keys exclude nothing: every key of the entry holds them."
            report.add("secondary-always-holds", text, entry, at="secondary_keys")


def _report_excluded(
    entry: JudgedEntry, blocked: list[JudgedKey], by: JudgedKey, report: Report
) -> None:
    names = listed(shown(key.text) for key in blocked)
    whole = len(blocked) == len([key for key in entry.keys if key.text])
    what = "The entry can never trigger" if whole else "Some keys can never trigger the entry"
    text = f"{what}: where {names} is found, the secondary key {shown(by.text)} is too."
    report.add("secondary-excludes-key", text, entry, at=by.at)
