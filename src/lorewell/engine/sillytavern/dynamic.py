"""Content that wants an environment we don't offer: templates, scripts, state updates.

Everything is one pass over the text: content is up to 200,000 characters of anyone's choosing.
Source: spec/native.md §11.5. Doubt blocks: text that only looks like a sign counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lorewell.engine.render import find_template, substitute
from lorewell.model.entry import Kind
from lorewell.model.text import BLANK

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
# Two readings of a tag: with quoted values, which may hold angle brackets, and without, as a
# stray apostrophe opens no value. Possessive: what was taken is never given back.
_TAGS = (
    re.compile(r"""<[a-z](?:[^<>"']++|"[^"]*+"|'[^']*+')*+"""),
    re.compile(r"<[a-z][^<>]*+"),
)
_HANDLER = re.compile(r"""[\s"'/]on[a-z]++\s*+=""")
_FENCES = ("```", "~~~")
_PAGES = ("<html", "<!doctype")


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


def _strings(raw: Mapping[str, object]) -> Iterator[str]:
    """Walk all texts of an entry, at any depth; member names are none."""
    left: list[object] = [raw]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)


def _holds_handler(lowered: str) -> bool:
    return any(
        _HANDLER.search(tag[0]) is not None for tags in _TAGS for tag in tags.finditer(lowered)
    )


def _holds_page(lowered: str) -> bool:
    """Whether the start of a page follows a fence: which fences make a pair is anyone's guess."""
    fences = [at for at in map(lowered.find, _FENCES) if at >= 0]
    return bool(fences) and any(lowered.find(page, min(fences)) >= 0 for page in _PAGES)


def _holds_macro(text: str) -> bool:
    template = find_template(text)
    if template is None:
        return False
    if template.unsupported is not None:
        return True
    # With the supported ones gone, what was around them shows: {{random::{{user}}}}.
    return find_template(substitute(text, {"char": "", "user": ""})) is not None


def _signs_in(text: str) -> Iterator[str]:
    lowered = text.lower()
    for requirement, signs in _SIGNS.items():
        if any(sign in lowered for sign in signs):
            yield requirement
    if _holds_handler(lowered) or _holds_page(lowered):
        yield "script"
    if _holds_macro(text):
        yield "macro"


def find_dynamic(content: str, title: str, raw: Mapping[str, object]) -> tuple[str, ...]:
    r"""Return what the texts of an entry ask for that we don't offer, in the table's order.

    Args:
        content: the entry's content; only here do leading decorators count.
        title: the entry's title; only here does a leading "CharInfo" count.
        raw: the entry as its file has it: every text in it is looked at, at any depth, whether
            or not its field is known.

    >>> find_dynamic("@@depth 2\n{{user}} rolls {{roll:d6}}", "", {"unknown": ["<% go() %>"]})
    ('ejs', 'macro', 'decorators')

    Source: spec/native.md §11.5, §8.11 (what an expression is).
    """
    found = {
        requirement for text in {content, title, *_strings(raw)} for requirement in _signs_in(text)
    }
    if title.lstrip(BLANK).lower().startswith("charinfo"):
        found.add("charinfo")
    if content.lstrip(BLANK).startswith("@@"):
        found.add("decorators")
    return in_table_order(found)
