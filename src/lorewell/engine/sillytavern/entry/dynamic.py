"""Content that wants an environment we don't offer: templates, scripts, state updates.

Everything is one pass over the text, in pieces: a search in a long one would keep all other
threads waiting, and texts of members that we don't know are as long as anyone likes.
Source: docs/rules/native.md §11.5. Doubt blocks: text that only looks like a sign counts as one.
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
# Most texts, and nearly all keys, hold none of the characters without which there is no sign: of
# each sign the last one that is no part of a word, and those of macros, handlers and pages.
_MARKS = {re.sub(r"\w", "", sign)[-1] for signs in _SIGNS.values() for sign in signs} | set("<{")
_MARK = re.compile(f"[{re.escape(''.join(sorted(_MARKS)))}]")
# Two readings of a tag: with quoted values, which may hold angle brackets, and without, as a
# stray apostrophe opens no value. Possessive: what was taken is never given back.
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
_TAIL_CHARS = 100  # enough to tell a content from its entry's other texts
_MAX_SPANS = 100  # of a requirement in one text; a hostile one would hold millions
MAX_SIGNS: Final = 5_000  # of a requirement in one entry
_PIECE_CHARS: Final = 65_536
_CHARS_A_STEP: Final = 100
_CHARS_A_LOOK: Final = 20
_CHARS_A_FIND: Final = 2_000
_VALUES_AT_ONCE: Final = 256
_SHORT_CHARS: Final = 100  # so short a text is looked through faster than it is remembered
UNCOUNTED: Final = 2**62  # steps for work whose input was counted when it came in
Span = tuple[int, int]


class DynamicSign(NamedTuple):
    """What an entry asks for that we don't offer, and where it shows.

    Attributes:
        requirement: of the table.
        pointer: the JSON pointer of a value, below the entry.
        span: half-open, in code points of the text at the pointer; None where that is no text.
        text: the whole of that text.
    """

    requirement: str
    pointer: str
    span: Span | None = None
    text: str = ""


class ValuePlace(NamedTuple):
    """Where a value is in an entry; a chain, as a name can be megabytes long and be shared."""

    outer: ValuePlace | None
    step: str | int

    def pointer(self) -> str:
        """Return the JSON pointer below the entry; that of a holder where it would be very long."""
        steps: list[str | int] = []
        place: ValuePlace | None = self
        while place is not None:
            steps.append(place.step)
            place = place.outer
        return short_pointer(*reversed(steps))


def in_table_order(requirements: Iterable[str]) -> tuple[str, ...]:
    """Return the requirements without repeats, in the order of the table."""
    return tuple(sorted(set(requirements), key=REQUIREMENTS.index))


def kind_of(requirements: Sequence[str]) -> Kind:
    """Return the kind of an entry that needs this."""
    if "script" in requirements:
        return "presentation"
    if "mvu" in requirements:
        return "state_update"
    if "ejs" in requirements or "charinfo" in requirements:
        return "template"
    return "lore"


Texts = Sequence[tuple[ValuePlace, str]]


def texts_of(raw: Mapping[str, object], steps: Steps) -> Iterator[tuple[ValuePlace, str]]:
    """Walk all texts of an entry, at any depth, each with its place; names are none."""
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
    return _counted(members, steps) if len(value) > _VALUES_AT_ONCE else members


def _counted(
    members: Iterator[tuple[str | int, object]], steps: Steps
) -> Iterator[tuple[str | int, object]]:
    while some := tuple(islice(members, _VALUES_AT_ONCE)):
        steps.spend("texts", len(some))
        yield from some


def lowered_alike(text: str) -> str:
    """Return the text in lower case, character for character."""
    lowered = text.lower()
    if len(lowered) != len(text):
        return text.replace("\u0130", "i").lower()  # the one that becomes two characters
    return lowered


def _searched(
    pattern: re.Pattern[str], chars: int, text: str, span: Span, steps: Steps
) -> Iterator[int]:
    """Yield where matches of a pattern begin, also those that overlap.

    Args:
        pattern: matches at most `chars` characters.
        chars: how many.
        text: the text.
        span: of the text, in which it is looked for.
        steps: counts the work.
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
    """Return where the tag ends whose inside begins at a place."""
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
        for start in _searched(_TAG, 2, lowered, (0, len(lowered)), steps):
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
    for at in _searched(_MAY_BE_HANDLER, 4, lowered, tag, steps):
        found = _HANDLER.match(lowered, at, end)
        if found is not None:
            return at + 1, found.end()
    return None


def _pages(lowered: str) -> Iterator[Span]:
    """Yield where a page starts behind a fence: which fences make a pair is anyone's guess."""
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
    """Yield what `_macros` does, a piece of the text at a time."""
    rest: list[str] = []
    at, shows = 0, False
    for found in _expressions(text, steps):
        if not is_variable(found[1]):
            shows = True
            yield found.span()
        rest.append(text[at : found.start()])
        at = found.end()
    if not shows and rest and any(_expressions("".join((*rest, text[at:])), steps)):
        yield text.index("{{"), text.rindex("}}") + 2


def _expressions(text: str, steps: Steps) -> Iterator[re.Match[str]]:
    """Yield the expressions of a text from left to right."""
    for start in _searched(_OPENING, 3, text, (0, len(text)), steps):
        found = EXPRESSION.match(text, start)
        if found is not None:
            steps.spend("texts")
            yield found


def _signs_of(requirement: str, lowered: str, steps: Steps) -> Iterator[Span]:
    """Yield where a requirement shows in fixed words."""
    pattern, end = _SIGN_PATTERNS[requirement], 0
    if len(lowered) <= _PIECE_CHARS:
        yield from (found.span() for found in pattern.finditer(lowered))
        return
    for start in _searched(pattern, _LONGEST, lowered, (0, len(lowered)), steps):
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
        return next(_searched(_MARK, 1, text, (0, len(text)), steps), None) is not None
    return _MARK.search(text) is not None


def _spans_in(text: str, steps: Steps) -> Iterator[tuple[str, Span]]:
    """Yield the signs in a text that may hold some."""
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


def _at_the_front(
    content: str, title: str, texts: Iterable[tuple[ValuePlace, str]]
) -> Iterator[DynamicSign]:
    """Yield what counts at the front of the content or of the title alone."""
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
    r"""Return the signs in the texts of an entry of what we don't offer, in the order of the texts.

    Of a requirement a text shows its first hundred, and an entry its first 5,000. Nothing is looked
    at where the content is too long to be stored.

    Args:
        content: the entry's content; only here do leading decorators count.
        title: the entry's title; only here does a leading "CharInfo" count.
        texts: all texts of the entry as its file has it, whether or not their fields are known.
        steps: counts the work; without it the work is not bounded.

    Raises:
        TooExpensiveError: the steps are spent.

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
        some = texts[begin : begin + _VALUES_AT_ONCE]
        steps.spend("texts", sum(1 + len(text) // _CHARS_A_STEP for _, text in some))
        for at, text in some:
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
                    DynamicSign(word, where, span, text) for word, span in _new(spans, counts)
                ]
    for text in (content, title):  # a number read as text, or taken from another entry
        if text in others and _may_hold_sign(text, steps):
            signs += [DynamicSign(requirement, "") for requirement, _ in _spans_in(text, steps)]
    return (*signs, *_at_the_front(content, title, texts))


def _new(spans: Iterable[tuple[str, Span]], counts: Counter[str]) -> Iterator[tuple[str, Span]]:
    """Yield the spans of which an entry does not have enough yet, and count them."""
    for requirement, span in spans:
        counts[requirement] += 1
        if counts[requirement] <= MAX_SIGNS:
            yield requirement, span
