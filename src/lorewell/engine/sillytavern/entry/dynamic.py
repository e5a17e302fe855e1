"""Finds content that needs an environment we don't offer: templates, scripts, state updates.

Texts are searched in one pass, piece by piece: a single search of a long text would block all
other threads, and unknown members can hold texts of any length. In doubt, text that only looks
like a sign counts as one. Source: docs/rules/native.md §11.5.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from lorewell.engine.steps import Steps
from lorewell.engine.template import EXPRESSION, find_template, is_variable, substitute
from lorewell.model.entry import MAX_CONTENT_CHARS, Kind
from lorewell.model.text import BLANK, short_pointer

REQUIREMENTS = (
    *("ejs", "mvu", "charinfo", "script", "sticky", "cooldown", "delay", "delay_until_recursion"),
    *("macro", "decorators", "character_filter", "generation_trigger", "outlet_name"),
)
_SIGNS = {
    "ejs": ("<%", "%>", "@@generate", "getwi(", "[generate:"),
    "mvu": (
        *("<updatevariable", "_.set(", "[mvu_update]", "[initvar]", "<statusplaceholderimpl"),
        *("{{get_message_variable", "{{format_message_variable"),
    ),
    "charinfo": ("<charinfo",),
    "script": ("<script", "<iframe", "javascript:"),
}
_LONGEST = max(len(sign) for signs in _SIGNS.values() for sign in signs)
_SIGN_PATTERNS = {
    requirement: re.compile("|".join(map(re.escape, signs)))
    for requirement, signs in _SIGNS.items()
}
# Every sign contains one of these characters, and most texts and nearly all keys contain none of
# them: the last non-word character of each sign, and those of macros, handlers and pages.
_MARKS = {re.sub(r"\w", "", sign)[-1] for signs in _SIGNS.values() for sign in signs} | set("<{")
_MARK = re.compile(f"[{re.escape(''.join(sorted(_MARKS)))}]")
# Two readings of a tag: with quoted values, which may hold angle brackets, and without, because a
# stray apostrophe does not open a value. Possessive, so that the search never backtracks.
_TAG = re.compile(r"<[a-z]")
_IN_TAG = (
    re.compile(r"""(?:[^<>"']++|"[^"]*+"|'[^']*+'){1,500}+"""),
    re.compile(r"[^<>]++"),
)
_MAY_BE_HANDLER = re.compile(r"""[\s"'/]on[a-z]""")
_HANDLER = re.compile(r"""[\s"'/]on[a-z]++\s*+=""")
_OPENING = re.compile(r"\{\{(?!\{)")  # of nested ones only the innermost counts
_FENCES = ("```", "~~~")
_PAGES = ("<html", "<!doctype")
_DECORATORS = re.compile(rf"[{BLANK}]*+((?:@@[^\n]*+\n?){{1,1000}}+)")
_CHARINFO = "charinfo"
_TAIL_CHARS = 100  # enough to identify the content among the entry's texts
_MAX_SPANS = 100  # of a requirement in one text; a hostile text could hold millions
MAX_SIGNS: Final = 5_000  # of a requirement in one entry
_PIECE_CHARS: Final = 65_536
_CHARS_A_STEP: Final = 100
_CHARS_A_LOOK: Final = 20
_CHARS_A_FIND: Final = 2_000
_VALUES_AT_ONCE: Final = 256
_SHORT_CHARS: Final = 100  # searching a shorter text is faster than caching its result
UNCOUNTED: Final = 2**62  # step limit for input whose size was checked before
Span = tuple[int, int]


class DynamicSign(NamedTuple):
    """A requirement of an entry that we don't meet, and where it occurs.

    Attributes:
        requirement: one of `REQUIREMENTS`.
        pointer: JSON pointer of the value, relative to the entry.
        span: half-open, in code points of the text at the pointer; None if the value is not text.
        text: the whole text at the pointer.
    """

    requirement: str
    pointer: str
    span: Span | None = None
    text: str = ""


class ValuePlace(NamedTuple):
    """The place of a value in an entry: a linked list, because names can be very long."""

    outer: ValuePlace | None
    step: str | int

    def pointer(self) -> str:
        """Return the JSON pointer relative to the entry; a very long one is cut to a parent."""
        steps: list[str | int] = []
        place: ValuePlace | None = self
        while place is not None:
            steps.append(place.step)
            place = place.outer
        return short_pointer(*reversed(steps))


def in_table_order(requirements: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct requirements in the order of `REQUIREMENTS`."""
    return tuple(sorted(set(requirements), key=REQUIREMENTS.index))


def kind_of(requirements: Sequence[str]) -> Kind:
    """Return the kind of an entry with these requirements."""
    if "script" in requirements:
        return "presentation"
    if "mvu" in requirements:
        return "state_update"
    if "ejs" in requirements or "charinfo" in requirements:
        return "template"
    return "lore"


Texts = Sequence[tuple[ValuePlace, str]]


def texts_of(raw: Mapping[str, object], steps: Steps) -> Iterator[tuple[ValuePlace, str]]:
    """Yield all texts of an entry, at any depth, with their places; member names don't count."""
    walks: list[tuple[ValuePlace | None, Iterator[tuple[str | int, object]]]]
    walks = [(None, _members(raw, steps))]
    while walks:
        outer, members = walks[-1]
        for step, value in members:
            if isinstance(value, str):
                yield ValuePlace(outer, step), value
            elif value and isinstance(value, dict | list | tuple):
                walks.append((ValuePlace(outer, step), _members(value, steps)))
                break
        else:
            walks.pop()


def _members(
    value: Mapping[str, object] | Sequence[object], steps: Steps
) -> Iterator[tuple[str | int, object]]:
    members: Iterator[tuple[str | int, object]] = iter(
        value.items() if isinstance(value, Mapping) else enumerate(value)
    )
    return _spending(members, steps) if len(value) > _VALUES_AT_ONCE else members


def _spending(
    members: Iterator[tuple[str | int, object]], steps: Steps
) -> Iterator[tuple[str | int, object]]:
    while batch := tuple(islice(members, _VALUES_AT_ONCE)):
        steps.spend("texts", len(batch))
        yield from batch


def lowered_alike(text: str) -> str:
    """Return the text in lower case, character for character."""
    lowered = text.lower()
    if len(lowered) != len(text):
        return text.replace("\u0130", "i").lower()  # the only one that becomes two characters
    return lowered


def _search(
    pattern: re.Pattern[str], chars: int, text: str, span: Span, steps: Steps
) -> Iterator[int]:
    """Yield the starts of all matches of a pattern, overlapping ones too.

    Args:
        pattern: the pattern.
        chars: the maximum length of a match.
        text: the text.
        span: the part of the text to search.
        steps: the step budget.
    """
    at, end = span
    while at < end:
        stop = min(at + _PIECE_CHARS, end)
        steps.spend("texts", 1 + (stop - at) // _CHARS_A_STEP)
        while found := pattern.search(text, at, min(stop + chars - 1, end)):
            if found.start() >= stop:
                break
            yield found.start()
            at = found.start() + 1
        at = stop


def _tag_end(inside: re.Pattern[str], lowered: str, at: int, steps: Steps) -> int:
    """Return the end of a tag, given the start of its inside."""
    steps.spend("texts")
    while found := inside.match(lowered, at):
        if found.end() - at > _CHARS_A_STEP:
            steps.spend("texts", (found.end() - at) // _CHARS_A_STEP)
        at = found.end()
    return at


def _handlers(lowered: str, steps: Steps) -> Iterator[Span]:
    seen = set()
    for inside in _IN_TAG if "<" in lowered and "=" in lowered else ():
        end = 0
        for start in _search(_TAG, 2, lowered, (0, len(lowered)), steps):
            if start < end:
                continue
            end = _tag_end(inside, lowered, start + 2, steps)
            found = _handler(lowered, (start, end), steps)
            if found is not None and found[1] not in seen:
                seen.add(found[1])
                yield found


def _handler(lowered: str, tag: Span, steps: Steps) -> Span | None:
    start, end = tag
    if end - start <= _PIECE_CHARS:
        found = _HANDLER.search(lowered, start, end)
        return (found.start() + 1, found.end()) if found else None
    for at in _search(_MAY_BE_HANDLER, 4, lowered, tag, steps):
        found = _HANDLER.match(lowered, at, end)
        if found is not None:
            return at + 1, found.end()
    return None


def _pages(lowered: str) -> Iterator[Span]:
    """Yield the starts of pages after a fence; pairs of fences are ambiguous, so any counts."""
    fences = [at for at in map(lowered.find, _FENCES) if at >= 0]
    for page in _PAGES if fences else ():
        at = lowered.find(page, min(fences))
        if at >= 0:
            yield at, at + len(page)


def _macros(text: str) -> Iterator[Span]:
    if "{{" not in text:
        return
    others = (found.span() for found in EXPRESSION.finditer(text) if not is_variable(found[1]))
    first = next(others, None)
    if first is not None:
        yield first
        yield from others
    # Removing the supported expressions uncovers the ones around them: {{random::{{user}}}}.
    elif find_template(substitute(text, {"char": "", "user": ""})) is not None:
        yield text.index("{{"), text.rindex("}}") + 2


def _macros_of_long(text: str, steps: Steps) -> Iterator[Span]:
    """Yield the same as `_macros`, searching the text piece by piece."""
    rest: list[str] = []
    at, has_other = 0, False
    for found in _expressions(text, steps):
        if not is_variable(found[1]):
            has_other = True
            yield found.span()
        rest.append(text[at : found.start()])
        at = found.end()
    if not has_other and rest and any(_expressions("".join((*rest, text[at:])), steps)):
        yield text.index("{{"), text.rindex("}}") + 2


def _expressions(text: str, steps: Steps) -> Iterator[re.Match[str]]:
    """Yield the expressions of a text from left to right."""
    for start in _search(_OPENING, 3, text, (0, len(text)), steps):
        found = EXPRESSION.match(text, start)
        if found is not None:
            steps.spend("texts")
            yield found


def _signs_of(requirement: str, lowered: str, steps: Steps) -> Iterator[Span]:
    """Yield the spans of a requirement's fixed signs."""
    pattern, end = _SIGN_PATTERNS[requirement], 0
    if len(lowered) <= _PIECE_CHARS:
        yield from (found.span() for found in pattern.finditer(lowered))
        return
    for start in _search(pattern, _LONGEST, lowered, (0, len(lowered)), steps):
        found = pattern.match(lowered, start) if start >= end else None
        if found is not None:
            end = found.end()
            yield found.span()


def _holds_any(signs: Iterable[str], lowered: str, steps: Steps) -> bool:
    if len(lowered) <= _PIECE_CHARS:
        return any(sign in lowered for sign in signs)
    for sign in signs:
        steps.spend("texts", len(lowered) // _CHARS_A_FIND)
        if sign in lowered:
            return True
    return False


def _may_hold_sign(text: str, steps: Steps) -> bool:
    if len(text) > _PIECE_CHARS:
        return next(_search(_MARK, 1, text, (0, len(text)), steps), None) is not None
    return _MARK.search(text) is not None


def _spans_in(text: str, steps: Steps) -> Iterator[tuple[str, Span]]:
    """Yield the signs in a text."""
    steps.spend("texts", 5 + len(text) // _CHARS_A_LOOK)
    lowered = lowered_alike(text)
    for requirement, signs in _SIGNS.items():
        if _holds_any(signs, lowered, steps):
            for span in islice(_signs_of(requirement, lowered, steps), _MAX_SPANS):
                yield requirement, span
    for requirement, spans in (
        ("script", _handlers(lowered, steps)),
        ("script", _pages(lowered)),
        ("macro", _macros(text) if len(text) <= _PIECE_CHARS else _macros_of_long(text, steps)),
    ):
        for span in islice(spans, _MAX_SPANS):
            yield requirement, span


def _leading_signs(
    content: str, title: str, texts: Iterable[tuple[ValuePlace, str]]
) -> Iterator[DynamicSign]:
    """Yield the signs that count only at the start of the content or of the title."""
    if content.lstrip(BLANK).startswith("@@"):
        tail = content[-_TAIL_CHARS:]
        for at, text in texts:
            block = _DECORATORS.match(text) if text.endswith(tail) else None
            if block is not None:
                yield DynamicSign("decorators", at.pointer(), block.span(1), text)
                break
        else:
            yield DynamicSign("decorators", "")
    start = len(title) - len(title.lstrip(BLANK))
    end = start + len(_CHARINFO)
    if title[start:end].lower() == _CHARINFO:
        for at, text in texts:
            if text.startswith(title):
                yield DynamicSign(_CHARINFO, at.pointer(), (start, end), text)
                break
        else:
            yield DynamicSign(_CHARINFO, "")


def find_signs(
    content: str, title: str, texts: Texts, steps: Steps | None = None
) -> tuple[DynamicSign, ...]:
    r"""Return the signs of requirements that we don't meet, in the order of the texts.

    For each requirement the first 100 signs of a text and the first 5,000 of an entry are
    returned. If the content is too long to be stored, nothing is searched.

    Args:
        content: the entry's content; leading decorators count only here.
        title: the entry's title; a leading "CharInfo" counts only here.
        texts: all texts of the entry as in its file, in known and unknown members.
        steps: the step budget; without it the work is not bounded.

    Raises:
        TooExpensiveError: the search needs more than `steps`.

    >>> raw = {"content": "@@unheard\n{{user}} rolls {{roll:d6}}", "unknown": ["<% go() %>"]}
    >>> for sign in find_signs(raw["content"], "", list(texts_of(raw, Steps()))):
    ...     print(sign.requirement, sign.pointer, sign.span)
    macro /content (25, 36)
    ejs /unknown/0 (0, 2)
    ejs /unknown/0 (8, 10)
    decorators /content (0, 10)

    Source: docs/rules/native.md §11.5, §8.11 (what an expression is).
    """
    if len(content) > MAX_CONTENT_CHARS:
        return ()
    steps = Steps(UNCOUNTED) if steps is None else steps
    seen: dict[str, tuple[tuple[str, Span], ...]] = {}
    counts: Counter[str] = Counter()
    signs: list[DynamicSign] = []
    others = {content, title}
    for begin in range(0, len(texts), _VALUES_AT_ONCE):
        batch = texts[begin : begin + _VALUES_AT_ONCE]
        steps.spend("texts", sum(1 + len(text) // _CHARS_A_STEP for _, text in batch))
        for at, text in batch:
            others.discard(text)
            if not _may_hold_sign(text, steps):
                continue
            spans = seen.get(text)
            if spans is None:
                spans = tuple(_spans_in(text, steps))
                if len(text) > _SHORT_CHARS:
                    seen[text] = spans
            if spans:
                where = at.pointer()
                signs += [
                    DynamicSign(word, where, span, text) for word, span in _first(spans, counts)
                ]
    for text in (content, title):  # not among the texts: from a number, or from another entry
        if text in others and _may_hold_sign(text, steps):
            signs += [DynamicSign(requirement, "") for requirement, _ in _spans_in(text, steps)]
    return (*signs, *_leading_signs(content, title, texts))


def _first(spans: Iterable[tuple[str, Span]], counts: Counter[str]) -> Iterator[tuple[str, Span]]:
    """Yield the spans until the entry has `MAX_SIGNS` of their requirement, and count them."""
    for requirement, span in spans:
        counts[requirement] += 1
        if counts[requirement] <= MAX_SIGNS:
            yield requirement, span
