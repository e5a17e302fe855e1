"""Rules for the letters of keys: invisible ones, look-alikes, width, case and word borders."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from lorewell.engine.matching.words import in_no_space_script, is_word_character
from lorewell.insight.lint.judged import JudgedBook, JudgedEntry, JudgedKey
from lorewell.insight.lint.report import Report, ValueEdit, edit_key, shown
from lorewell.insight.lint.scanning import KeyForm, TextScan
from lorewell.model.plain import hidden_spans
from lorewell.model.text import BLANK

_WIDE: Final = re.compile(r"[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f]")
_WORD: Final = re.compile(r"[^\W\d_]+")
_LATIN: Final = re.compile(r"[A-Za-z\u00c0-\u024f]")
_CYRILLIC: Final = re.compile(r"[\u0370-\u03ff\u0400-\u04ff]")
_ALIKE_LATIN: Final = frozenset("aceopxyisjhkmtbABCEHIKMOPTXYSJ")
_ALIKE_OTHER: Final = frozenset("асеорхуіѕјһкмтвАВСЕНІКМОРТХУЅЈοΑΒΕΖΗΙΚΜΝΟΡΤΥΧανρυ")
_ENDING_CHARS: Final = 3  # of an inflected word
_LINES: Final = frozenset("\n\r\t")
# Marks of direction, which belong to texts that mix directions, and spaces of South-East Asia.
_DIRECTION: Final = frozenset("\u061c\u200e\u200f")
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL"})
_ZERO_WIDTH_SPACE: Final = "\u200b"
_MOST_HIDDEN: Final = 100


def check_key_forms(book: JudgedBook, scan: TextScan, report: Report) -> None:
    """Report keys whose letters keep them from matching."""
    for entry in book.entries:
        if entry.blocked:
            continue
        for key in (*entry.keys, *entry.secondary):
            if _check_hidden(entry, key, report) or not key.wanted:
                continue
            _check_width(entry, key, scan, report)
            if book.settings.policy == "sillytavern":
                _check_form(entry, key, scan, report)
            _check_confusable(entry, key, report)
            _check_case(book, entry, key, scan, report)
            _check_borders(book, entry, key, scan, report)
        check_content(entry, report)


def _check_hidden(entry: JudgedEntry, key: JudgedKey, report: Report) -> bool:
    stripped = key.text.strip(BLANK)
    begin = key.text.find(stripped)
    spans = [
        (begin + start, begin + end)
        for start, end in hidden_spans(stripped)
        if stripped[start] not in _LINES
    ]
    if not spans:
        return False
    report.add(
        "key-hidden-character",
        f"The key {shown(key.text)} holds invisible characters, so visible text never matches it.",
        entry,
        at=key.at,
        span=spans[0],
        label="Remove the invisible characters",
        edits=edit_key(entry, key, *_kept(_without(key.text, spans))),
        figures={"characters": len(spans)},
    )
    return True


def _kept(text: str) -> tuple[str, ...]:
    return (text,) if text.strip(BLANK) else ()


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    dropped = {at for start, end in spans for at in range(start, end)}
    return "".join(each for at, each in enumerate(text) if at not in dropped)


def _check_width(entry: JudgedEntry, key: JudgedKey, scan: TextScan, report: Report) -> None:
    found = _WIDE.search(key.text)
    if found is None or scan.of(entry, key).texts:
        return
    usual = unicodedata.normalize("NFKC", key.text)
    keys = getattr(entry.spec, key.field)
    if usual in keys:
        return
    report.add(
        "key-width",
        f"The key {shown(key.text)} does not match the same letters in their usual width.",
        entry,
        at=key.at,
        span=found.span(),
        label=f"Add {shown(usual)}",
        edits=edit_key(entry, key, key.text, usual),
    )


def _check_form(entry: JudgedEntry, key: JudgedKey, scan: TextScan, report: Report) -> None:
    composed = unicodedata.normalize("NFC", key.text)
    if composed == key.text or scan.of(entry, key).texts:
        return
    start = next(at for at, each in enumerate(key.text) if composed[at : at + 1] != each)
    report.add(
        "key-normal-form",
        f"The key {shown(key.text)} is decomposed; it does not match composed letters.",
        entry,
        at=key.at,
        span=(start, len(key.text)),
        label="Compose the letters",
        edits=edit_key(entry, key, composed),
    )


def _check_confusable(entry: JudgedEntry, key: JudgedKey, report: Report) -> None:
    if key.text.isascii():
        return
    for word in _WORD.finditer(key.text):
        latin, other = _LATIN.findall(word[0]), _CYRILLIC.findall(word[0])
        if not latin or not other:
            continue
        if _ALIKE_LATIN.issuperset(latin) or _ALIKE_OTHER.issuperset(other):
            text = f"The key {shown(key.text)} mixes letters of two scripts that look alike."
            report.add("key-confusable", text, entry, at=key.at, span=word.span())
            return


def _check_case(
    book: JudgedBook, entry: JudgedEntry, key: JudgedKey, scan: TextScan, report: Report
) -> None:
    if not entry.case or scan.of(entry, key).texts:
        return
    other = scan.sightings.get(KeyForm(book.fold(key.wanted), case=False))
    if other is None:
        return
    text = f"The key {shown(key.text)} matches case, and the book's texts have it only in another."
    report.add("key-case", text, entry, at=key.at, figures={"texts": len(other.texts)})


def _check_borders(
    book: JudgedBook, entry: JudgedEntry, key: JudgedKey, scan: TextScan, report: Report
) -> None:
    if not key.alone:
        return
    found = scan.of(entry, key)
    place = found.inside
    if place is not None and not found.alone:
        form = book.compose if entry.case else book.fold
        text = form(book.entries[place.text].content)
        before, after = text[: place.start], text[place.end :]
        ending = _WORD.match(after)
        inflected = not _ends_in_letter(before) and (
            ending is not None and len(ending[0]) <= _ENDING_CHARS
        )
        unspaced = in_no_space_script(key.wanted[0]) or in_no_space_script(key.wanted[-1])
        if inflected or unspaced:
            word = _word_around(text, place.start, place.end)
            message = (
                f"The key {shown(key.text)} must stand alone, but the book's texts have it only "
                f"inside {shown(word)}."
            )
            report.add("whole-words-closed", message, entry, at=key.at)
        return
    if book.settings.policy == "sillytavern" and _has_open_end(key.wanted):
        message = (
            f'The key {shown(key.text)} is found inside longer words too: "whole words" knows '
            "ASCII letters alone."
        )
        report.add("whole-words-open", message, entry, at=key.at)


def _ends_in_letter(text: str) -> bool:
    return bool(text) and is_word_character(text[-1])


def _word_around(text: str, start: int, end: int) -> str:
    while start > 0 and is_word_character(text[start - 1]):
        start -= 1
    while end < len(text) and is_word_character(text[end]):
        end += 1
    return text[start:end]


def _has_open_end(wanted: str) -> bool:
    return any(not end.isascii() and is_word_character(end) for end in (wanted[0], wanted[-1]))


def check_content(entry: JudgedEntry, report: Report) -> None:
    """Report invisible characters in a content."""
    content = entry.content
    if content.isascii() and content.isprintable():
        return
    spans = [span for span in hidden_spans(content) if _is_odd(content, span[0])]
    if not spans:
        return
    start = spans[0][0]
    around = content[max(0, start - 10) : start + 10]
    report.add(
        "content-hidden-character",
        f"The content holds invisible characters, first in {shown(around)}.",
        entry,
        at="content",
        span=spans[0],
        label="Remove the invisible characters",
        edits=(ValueEdit(entry.index, "content", _without(content, spans)),),
        figures={"characters": len(spans)},
    )


def _is_odd(content: str, at: int) -> bool:
    character = content[at]
    if character in _LINES:
        return False
    around = content[max(0, at - 1) : at] + content[at + 1 : at + 2]
    if character in _DIRECTION:
        return not any(unicodedata.bidirectional(each) in _RIGHT_TO_LEFT for each in around)
    if character == _ZERO_WIDTH_SPACE:
        return not any(in_no_space_script(each) and ord(each) < 0x2000 for each in around)  # noqa: PLR2004  the scripts of South-East Asia
    return True
