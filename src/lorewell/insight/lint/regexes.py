"""Rules for regex keys."""

from __future__ import annotations

import re
from typing import Final

from lorewell.insight.lint.judged import JudgedBook, JudgedEntry, JudgedKey
from lorewell.insight.lint.report import Report, edit_key, shown
from lorewell.jsregex import Look, Pattern, RegexGuard, Verdict
from lorewell.jsregex.cost import costly
from lorewell.model.text import BLANK

_PROBE: Final = "\ue000"  # a character that no key means; what finds it finds nearly everything
_ALMOST: Final = re.compile(r"/(?P<pattern>.+)/(?P<flags>[A-Za-z]{0,8})", re.DOTALL)
_SIGNS: Final = re.compile(r"[\\^$.|?*+()\[\]{}]")
_FLAGS: Final = frozenset("dgimsuvy")
_NEGATIVE_LOOK: Final = re.compile(r"\(\?<?!")
_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)
_STEPS_PER_REGEX: Final = 20


def check_regexes(book: JudgedBook, report: Report) -> None:
    """Report regex keys that don't match, match everything, or may run long."""
    keys = [
        (entry, key)
        for entry in book.entries
        if not entry.blocked
        for key in (*entry.keys, *entry.secondary)
    ]
    for entry, key in keys:
        if key.regex is None and not key.has_macro:
            _check_almost(entry, key, report)
    regexes = [(entry, key, key.regex) for entry, key in keys if key.regex is not None]
    verdicts = _verdicts(book, {pattern: None for _, _, pattern in regexes})
    for entry, key, pattern in regexes:
        book.steps.spend("lint", _STEPS_PER_REGEX)
        match verdicts[pattern]:
            case "invalid" if book.settings.policy == "sillytavern":
                _add_as_text(entry, key, "it is not a valid regex", report)
            case "invalid":
                text = f"{shown(key.text)} is not a valid regex: it never matches."
                report.add("regex-invalid", text, entry, at=key.at)
            case "hit" if not _NEGATIVE_LOOK.search(pattern.source):
                text = f"The regex {shown(key.text)} matches every text."
                report.add("regex-matches-everything", text, entry, at=key.at)
                _check_flags(entry, key, pattern, report)
            case verdict:
                _check_cost(entry, key, pattern, verdict, report)
                _check_flags(entry, key, pattern, report)


def _verdicts(book: JudgedBook, patterns: dict[Pattern, None]) -> dict[Pattern, Verdict]:
    """Return the outcome of each pattern on a text that no key means."""
    if not patterns:
        return {}
    book.steps.spend("regex", _STEPS_PER_REGEX * len(patterns))
    look = Look(parts=((0, len(_PROBE)),), primary=(), fallback=True, secondary=tuple(patterns))
    (result,) = RegexGuard(watch=book.steps.watch).search(_PROBE, [look])
    return {
        pattern: outcome.verdict
        for pattern, outcome in zip(patterns, result.secondary, strict=True)
    }


def _check_almost(entry: JudgedEntry, key: JudgedKey, report: Report) -> None:
    found = _ALMOST.fullmatch(key.text.strip(BLANK))
    if found is None:
        return
    flags = found["flags"]
    has_flags = bool(flags) and _FLAGS.issuperset(flags)
    if not has_flags and not (_SIGNS.search(found["pattern"]) and len(flags) <= 1):
        return
    why = "a slash inside it is not escaped" if has_flags or not flags else "its flags are unknown"
    if "d" in flags or "v" in flags:
        why = "its flags are unknown"
    _add_as_text(entry, key, why, report)


def _add_as_text(entry: JudgedEntry, key: JudgedKey, why: str, report: Report) -> None:
    text = f"The key {shown(key.text)} is searched as plain text: {why}."
    report.add("regex-as-text", text, entry, at=key.at)


def _check_cost(
    entry: JudgedEntry, key: JudgedKey, pattern: Pattern, verdict: Verdict, report: Report
) -> None:
    why = "it ran too long" if verdict == "timeout" else costly(pattern.source)
    if why is not None:
        text = f"The regex {shown(key.text)} may run very long: {why}."
        report.add("regex-expensive", text, entry, at=key.at)


def _check_flags(entry: JudgedEntry, key: JudgedKey, pattern: Pattern, report: Report) -> None:
    pointless = _pointless(pattern)
    if not pointless:
        return
    kept = "".join(flag for flag in pattern.flags if flag not in pointless)
    stripped = key.text.strip(BLANK)
    rest = stripped[: len(stripped) - len(pattern.flags)]
    end = key.text.index(stripped) + len(stripped)
    report.add(
        "regex-flag",
        f"The flag {pointless} of {shown(key.text)} has no effect.",
        entry,
        at=key.at,
        span=(end - len(pattern.flags), end),
        label="Remove flags without effect",
        edits=edit_key(entry, key, rest + kept),
    )


def _pointless(pattern: Pattern) -> str:
    """Return the flags of a pattern that change nothing."""
    bare = _ESCAPE.sub("", pattern.source)
    has_case = any(each.lower() != each.upper() for each in bare) or "\\" in pattern.source
    has_effect = {
        "g": False,
        "i": has_case,
        "m": "^" in bare or "$" in bare,
        "s": "." in bare,
    }
    return "".join(flag for flag in pattern.flags if not has_effect.get(flag, True))
