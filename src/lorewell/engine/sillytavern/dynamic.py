"""Content that wants an environment we don't offer: templates, scripts, state updates.

Everything is one pass over the text: content is up to 200,000 characters of anyone's choosing.
Source: spec/native.md §11.5. Doubt blocks: text that only looks like a sign counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from lorewell.engine.render import find_template, other_expressions, substitute
from lorewell.model.entry import Kind
from lorewell.model.text import BLANK, pointer

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
_TAGS = (
    re.compile(r"""<[a-z](?:[^<>"']++|"[^"]*+"|'[^']*+')*+"""),
    re.compile(r"<[a-z][^<>]*+"),
)
_HANDLER = re.compile(r"""[\s"'/]on[a-z]++\s*+=""")
_FENCES = ("```", "~~~")
_PAGES = ("<html", "<!doctype")
_DECORATORS = re.compile(rf"[{BLANK}]*((?:@@[^\n]*\n?)+)")
_CHARINFO = "charinfo"
_TAIL_CHARS = 100  # enough to tell a content from its entry's other texts
_MAX_STEP_CHARS = 200
_MAX_POINTER_CHARS = 500
_MAX_SPANS = 100  # of a requirement in one text; a hostile one would hold millions
Span = tuple[int, int]


class Sign(NamedTuple):
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


class Place(NamedTuple):
    """Where a value is in an entry; a chain, as a name can be megabytes long and be shared."""

    outer: Place | None
    step: str | int

    def pointer(self) -> str:
        """Return the JSON pointer below the entry; that of a holder where it would be very long."""
        steps: list[str | int] = []
        place: Place | None = self
        while place is not None:
            steps.append(place.step)
            place = place.outer
        told = ""
        for step in reversed(steps):
            is_long = isinstance(step, str) and len(step) > _MAX_STEP_CHARS
            longer = told if is_long else told + pointer(step)
            if is_long or len(longer) > _MAX_POINTER_CHARS:
                break
            told = longer
        return told


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


Texts = Sequence[tuple[Place, str]]


def texts_of(raw: Mapping[str, object]) -> Iterator[tuple[Place, str]]:
    """Walk all texts of an entry, at any depth, each with its place; names are none."""
    walks: list[tuple[Place | None, Iterator[tuple[str | int, object]]]] = [(None, _members(raw))]
    while walks:
        outer, members = walks[-1]
        for step, value in members:
            if isinstance(value, str):
                yield Place(outer, step), value
            elif value and isinstance(value, dict | list | tuple):
                walks.append((Place(outer, step), _members(value)))
                break
        else:
            walks.pop()


def _members(value: object) -> Iterator[tuple[str | int, object]]:
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value)) if isinstance(value, list | tuple) else iter(())


def lowered_alike(text: str) -> str:
    """Return the text in lower case, character for character."""
    lowered = text.lower()
    if len(lowered) != len(text):
        return text.replace("\u0130", "i").lower()  # the one that becomes two characters
    return lowered


def _handlers(lowered: str) -> Iterator[Span]:
    seen = set()
    for tags in _TAGS if "<" in lowered else ():
        for tag in tags.finditer(lowered):
            found = _HANDLER.search(lowered, *tag.span())
            if found is not None and found.end() not in seen:
                seen.add(found.end())
                yield found.start() + 1, found.end()


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
    others = other_expressions(text)
    first = next(others, None)
    if first is not None:
        yield first
        yield from others
    # With the supported ones gone, what was around them shows: {{random::{{user}}}}.
    elif find_template(substitute(text, {"char": "", "user": ""})) is not None:
        yield text.index("{{"), text.rindex("}}") + 2


def _spans_in(text: str) -> Iterator[tuple[str, Span]]:
    if _MARK.search(text) is None:
        return
    lowered = lowered_alike(text)
    for requirement, signs in _SIGNS.items():
        if any(sign in lowered for sign in signs):
            for found in islice(_SIGN_PATTERNS[requirement].finditer(lowered), _MAX_SPANS):
                yield requirement, found.span()
    for requirement, spans in (
        ("script", _handlers(lowered)),
        ("script", _pages(lowered)),
        ("macro", _macros(text)),
    ):
        for span in islice(spans, _MAX_SPANS):
            yield requirement, span


def _at_the_front(content: str, title: str, texts: Iterable[tuple[Place, str]]) -> Iterator[Sign]:
    """Yield what counts at the front of the content or of the title alone."""
    if content.lstrip(BLANK).startswith("@@"):
        tail = content[-_TAIL_CHARS:]
        for at, text in texts:
            block = _DECORATORS.match(text) if text.endswith(tail) else None
            if block is not None:
                yield Sign("decorators", at.pointer(), block.span(1), text)
                break
        else:
            yield Sign("decorators", "")
    start = len(title) - len(title.lstrip(BLANK))
    end = start + len(_CHARINFO)
    if title[start:end].lower() == _CHARINFO:
        for at, text in texts:
            if text.startswith(title):
                yield Sign(_CHARINFO, at.pointer(), (start, end), text)
                break
        else:
            yield Sign(_CHARINFO, "")


def find_signs(content: str, title: str, texts: Texts) -> tuple[Sign, ...]:
    r"""Return the signs in the texts of an entry of what we don't offer, in the order of the texts.

    Of a requirement a text shows its first hundred.

    Args:
        content: the entry's content; only here do leading decorators count.
        title: the entry's title; only here does a leading "CharInfo" count.
        texts: all texts of the entry as its file has it, whether or not their fields are known.

    >>> raw = {"content": "@@unheard\n{{user}} rolls {{roll:d6}}", "unknown": ["<% go() %>"]}
    >>> for sign in find_signs(raw["content"], "", list(texts_of(raw))):
    ...     print(sign.requirement, sign.pointer, sign.span)
    macro /content (25, 36)
    ejs /unknown/0 (0, 2)
    ejs /unknown/0 (8, 10)
    decorators /content (0, 10)

    Source: spec/native.md §11.5, §8.11 (what an expression is).
    """
    seen: dict[str, tuple[tuple[str, Span], ...]] = {}
    signs: list[Sign] = []
    for at, text in texts:
        if text not in seen:
            seen[text] = tuple(_spans_in(text))
        where = at.pointer() if seen[text] else ""
        signs += [Sign(requirement, where, span, text) for requirement, span in seen[text]]
    for text in (content, title):  # a number read as text, or taken from another entry
        if text not in seen:
            signs += [Sign(requirement, "") for requirement, _ in _spans_in(text)]
    return (*signs, *_at_the_front(content, title, texts))
