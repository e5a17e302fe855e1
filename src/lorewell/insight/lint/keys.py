"""Rules for the keys of an entry: whether they can match, and how often."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from lorewell.engine.conditions import Flaw
from lorewell.engine.conditions.keys import read_key_expression
from lorewell.engine.matching.literal import occurrences
from lorewell.engine.sillytavern.macros.names import is_known, macro_names
from lorewell.insight.lint.judged import JudgedBook, JudgedEntry, JudgedKey
from lorewell.insight.lint.report import Report, edit_key, listed, shown
from lorewell.insight.lint.scanning import KeyForm, TextScan, form_of
from lorewell.insight.lint.words import common_words
from lorewell.model.text import BLANK

_SEPARATOR: Final = re.compile(r"[，、；\n\r\t]|,(?![0-9])|(?<![0-9]),")
_PART_WORDS, _PART_CHARS = 3, 30  # of a part that looks like a key of its own
_BRACKETS: Final = ("()", "[]", "{}", "（）", "【】", "「」", "『』", "《》", "“”", "〈〉")
_MOST_PARTS: Final = 50
_COMMON_TEXTS, _COMMON_RATIO = 8, 0.6
_FEW_CHARS: Final = 3


def check_keys(book: JudgedBook, scan: TextScan, report: Report) -> None:
    """Report keys that can't match as meant, and entries without a key that can."""
    needed = {name for entry in book.entries for name in entry.requires}
    common = common_words(scan.folded)
    for entry in book.entries:
        if entry.blocked:
            continue
        if _is_stuck(entry) and entry.id not in needed:
            _report_stuck(entry, report)
        for key in (*entry.keys, *entry.secondary):
            book.steps.spend("lint", 2 + len(key.text) // 20)
            _check_blank(book, entry, key, report)
            _check_separator(entry, key, scan, report)
            _check_space(entry, key, report)
            _check_macro(book, entry, key, report)
        if not entry.always:
            for key in entry.plain_keys:
                _check_length(entry, key, report)
                _check_common(entry, key, scan, common, report)
        _check_repeated(entry, report)
        _check_shadowed(book, entry, scan, report)
        _check_expression(book, entry, report)
    _check_shared(book, scan, report)


def _is_stuck(entry: JudgedEntry) -> bool:
    if entry.always or entry.other_trigger:
        return False
    return not any(key.wanted or key.regex or key.text for key in entry.keys)


def _report_stuck(entry: JudgedEntry, report: Report) -> None:
    why = "its keys are not a list" if entry.spec.keys and not entry.keys else "it has no key"
    text = f"Nothing can trigger the entry: {why} and is not constant."
    if entry.spec.keys and not entry.keys:
        text = f"Nothing can trigger the entry: it is not constant, and {why}."
    report.add("no-trigger", text, entry, at="keys")


def _check_blank(book: JudgedBook, entry: JudgedEntry, key: JudgedKey, report: Report) -> None:
    if key.text.strip(BLANK):
        return
    matches = book.settings.policy == "sillytavern" and key.text
    effect = "matches every text" if matches else "never matches"
    text = f"A blank key {effect}."
    report.add(
        "blank-key", text, entry, at=key.at, label="Remove the key", edits=edit_key(entry, key)
    )


def _check_separator(entry: JudgedEntry, key: JudgedKey, scan: TextScan, report: Report) -> None:
    stripped = key.text.strip(BLANK)
    found = _SEPARATOR.search(stripped) if key.wanted else None
    if found is None or scan.of(entry, key).texts:  # a text of the book has it as it is
        return
    parts = [part for each in _SEPARATOR.split(stripped) if (part := each.strip(BLANK))]
    look_like_keys = len(parts) <= _MOST_PARTS and all(
        len(part.split()) <= _PART_WORDS and len(part) <= _PART_CHARS for part in parts
    )
    if not all(map(_is_closed, parts)) or (found[0] == "," and not look_like_keys):
        return  # a phrase
    start = key.text.index(stripped) + found.start()
    report.add(
        "key-separator",
        f"The key {shown(key.text)} is searched as a whole, with its separators.",
        entry,
        at=key.at,
        span=(start, start + 1),
        label="Split the key",
        edits=edit_key(entry, key, *parts) if look_like_keys else (),
    )


def _is_closed(part: str) -> bool:
    """Return whether brackets that open in a part close in it."""
    return all(part.count(opening) == part.count(closing) for opening, closing in _BRACKETS)


def _check_space(entry: JudgedEntry, key: JudgedKey, report: Report) -> None:
    stripped = key.text.strip(BLANK)
    if not stripped or stripped == key.text:
        return
    report.add(
        "key-space",
        f"The space around the key {shown(key.text)} does not count.",
        entry,
        at=key.at,
        label="Remove the space",
        edits=edit_key(entry, key, stripped),
    )


def _check_macro(book: JudgedBook, entry: JudgedEntry, key: JudgedKey, report: Report) -> None:
    if not key.has_macro:
        return
    if book.settings.policy == "sillytavern":
        unknown = [name for name in macro_names(key.text, book.steps) if not is_known(name)]
        if not unknown:
            return
        why = f"the macro {shown(unknown[0])} does not exist"
    else:
        why = "macros in keys are not replaced"
    text = f"The key {shown(key.text)} is searched as it is: {why}."
    start = key.text.index("{{")
    report.add("macro-in-key", text, entry, at=key.at, span=(start, len(key.text)))


def _is_gated(entry: JudgedEntry) -> bool:
    """Return whether secondary keys must be found as well."""
    return bool(entry.secondary) and entry.logic in ("and_any", "and_all")


def _check_length(entry: JudgedEntry, key: JudgedKey, report: Report) -> None:
    composed = unicodedata.normalize("NFC", key.text.strip(BLANK))
    letters = [each for each in composed if unicodedata.category(each)[0] not in "MS"]
    if len(letters) != 1 or len(composed) > _FEW_CHARS or _is_gated(entry):
        return
    if len(letters) == 1 and any(unicodedata.category(each)[0] == "S" for each in composed):
        return
    text = f"The key {shown(key.text)} is a single character, which many messages hold."
    report.add("key-one-character", text, entry, at=key.at)


def _check_common(
    entry: JudgedEntry, key: JudgedKey, scan: TextScan, common: frozenset[str], report: Report
) -> None:
    if _is_gated(entry) or report.has("key-one-character", entry):
        return
    if key.wanted.casefold() in common:
        text = f"The key {shown(key.text)} is among the most common words."
        report.add("key-common", text, entry, at=key.at)
        return
    texts = len(scan.folded)
    hits = len(scan.hits(entry, key))
    if texts >= _COMMON_TEXTS and hits >= texts * _COMMON_RATIO:
        text = f"The key {shown(key.text)} is found in {hits} of the book's {texts} texts."
        report.add("key-common", text, entry, at=key.at, figures={"texts": texts, "hits": hits})


def _check_repeated(entry: JudgedEntry, report: Report) -> None:
    for field_keys in (entry.keys, entry.secondary):
        seen: dict[object, JudgedKey] = {}
        for key in field_keys:
            same = key.wanted or key.regex
            if not same:
                continue
            first = seen.setdefault(same, key)
            if first is not key:
                report.add(
                    "key-repeated",
                    f"The key {shown(key.text)} is listed twice.",
                    entry,
                    at=key.at,
                    label="Remove the second one",
                    edits=edit_key(entry, key),
                )


def _check_shadowed(book: JudgedBook, entry: JudgedEntry, scan: TextScan, report: Report) -> None:
    if entry.always:
        return
    own = {key.wanted: key for key in entry.plain_keys}
    for key in own.values():
        for inner in scan.contained.get(form_of(entry, key), ()):
            shorter = own.get(inner.wanted)
            if shorter is not None and implies(book, key, shorter):
                text = (
                    f"The key {shown(key.text)} adds nothing: wherever it is found, "
                    f"{shown(shorter.text)} is."
                )
                report.add("key-shadowed", text, entry, at=key.at)
                break


def implies(book: JudgedBook, key: JudgedKey, other: JudgedKey) -> bool:
    """Return whether every hit of a key is a hit of another key inside it."""
    for start in occurrences(key.wanted, other.wanted, 0, book.steps):
        if not other.alone:
            return True
        end = start + len(other.wanted)
        is_edge = start == 0 or end == len(key.wanted)
        if (key.alone or not is_edge) and book.borders(key.wanted, start, end, book.steps):
            return True
    return False


def _check_expression(book: JudgedBook, entry: JudgedEntry, report: Report) -> None:
    text = entry.spec.key_expression
    if text is None or book.settings.policy != "native":
        return
    parsed = read_key_expression(text)
    if isinstance(parsed, Flaw):
        report.add(
            "key-expression-unreadable",
            f"The key expression never holds: at character {parsed.at}, {parsed.detail}.",
            entry,
            at="key_expression",
            span=(min(parsed.at, len(text)), len(text)),
        )


def _is_free(entry: JudgedEntry) -> bool:
    """Return whether a hit of its keys is all that an entry waits for."""
    return not (entry.always or entry.limited or entry.secondary or entry.blocked)


def _check_shared(book: JudgedBook, scan: TextScan, report: Report) -> None:
    told: set[tuple[int, ...]] = set()
    for form, members in scan.listed.items():
        free = tuple(at for at in members if _is_free(book.entries[at]))
        if len(free) < 2 or free in told:  # noqa: PLR2004  a key of one entry
            continue
        book.steps.spend("lint", len(free))
        entries = [book.entries[at] for at in free]
        groups = set.intersection(*(set(entry.groups) for entry in entries))
        bound = {name for entry in entries for name in entry.requires}
        if groups or any(entry.id in bound for entry in entries):
            continue
        told.add(free)
        key = _key_with(entries[0], form)
        names = listed(shown(entry.spec.title or entry.id) for entry in entries)
        text = f"The key {shown(key.text)} triggers {len(entries)} entries: {names}."
        report.add("key-shared", text, *entries, at=key.at)


def _key_with(entry: JudgedEntry, form: KeyForm) -> JudgedKey:
    return next(key for key in entry.plain_keys if key.wanted == form.wanted)
