"""The table of all codes: what lint can find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from lorewell.model.lint import Severity


class LintCode(NamedTuple):
    """A kind of finding.

    Attributes:
        code: the stable code.
        name: its stable name.
        severity: how grave it is.
        summary: what is found, in a few words.
        fixable: whether some of its findings have a fix.
        per: whether findings are told for each entry or once for the book.
    """

    code: str
    name: str
    severity: Severity
    summary: str
    fixable: bool = False
    per: Literal["entry", "book"] = "entry"


TABLE: Final = (
    # Triggers and keys.
    LintCode("LW001", "no-trigger", "error", "Nothing can trigger an enabled entry."),
    LintCode("LW002", "blank-key", "warning", "A key is blank.", fixable=True),
    LintCode("LW003", "key-separator", "warning", "A key holds several keys.", fixable=True),
    LintCode("LW004", "key-space", "info", "A key has space around it.", fixable=True, per="book"),
    LintCode("LW005", "key-one-character", "warning", "A key is a single character."),
    LintCode("LW006", "key-common", "warning", "A key is found in nearly every text.", per="book"),
    LintCode("LW007", "key-repeated", "info", "An entry lists a key twice.", fixable=True),
    LintCode(
        "LW008", "key-shadowed", "info", "A key is found only where a shorter one is.", per="book"
    ),
    LintCode("LW009", "key-shared", "info", "Several entries have a key.", per="book"),
    LintCode(
        "LW010", "key-hidden-character", "error", "A key holds invisible characters.", fixable=True
    ),
    LintCode("LW011", "key-width", "warning", "A key has letters of another width.", fixable=True),
    LintCode(
        "LW012", "key-normal-form", "warning", "A key is decomposed, texts are not.", fixable=True
    ),
    LintCode("LW013", "key-confusable", "warning", "A key mixes letters that look alike."),
    LintCode("LW014", "key-case", "warning", "A key differs in case from the book's texts."),
    LintCode("LW015", "whole-words-closed", "warning", "A key is found only inside longer words."),
    LintCode(
        "LW016", "whole-words-open", "info", "A key is found inside longer words.", per="book"
    ),
    LintCode("LW017", "macro-in-key", "error", "A key holds a macro that has no value."),
    LintCode("LW018", "key-expression-unreadable", "error", "A key expression has an error."),
    # Regex keys.
    LintCode("LW101", "regex-invalid", "error", "A regex key is not valid and never matches."),
    LintCode("LW102", "regex-as-text", "warning", "A regex key is searched as plain text."),
    LintCode("LW103", "regex-matches-everything", "error", "A regex key matches every text."),
    LintCode("LW104", "regex-expensive", "warning", "A regex key may run very long."),
    LintCode(
        "LW105", "regex-flag", "info", "A flag of a regex has no effect.", fixable=True, per="book"
    ),
    # Secondary keys and conditions.
    LintCode("LW201", "secondary-excludes-key", "error", "Secondary keys exclude every hit."),
    LintCode("LW202", "secondary-ignored", "info", "Secondary keys do not count.", per="book"),
    LintCode("LW203", "secondary-always-holds", "info", "Secondary keys exclude nothing."),
    LintCode("LW204", "conditions-contradict", "error", "Conditions can't hold together."),
    LintCode("LW205", "condition-unreadable", "error", "A condition has an error."),
    LintCode("LW206", "path-unset", "warning", "A condition reads a path without a value."),
    LintCode("LW207", "path-misspelled", "warning", "A condition's path looks misspelled."),
    # Other entries.
    LintCode("LW301", "requires-unavailable", "error", "A required entry is never available."),
    LintCode("LW302", "group-never-wins", "error", "A member of a group can never win."),
    LintCode("LW303", "group-of-one", "info", "A group has one member.", per="book"),
    # Recursion.
    LintCode("LW401", "recursion-unreachable", "error", "Recursion alone can wake it, and can't."),
    LintCode(
        "LW402", "recursion-cycle", "info", "Entries wake each other in a circle.", per="book"
    ),
    LintCode(
        "LW403", "recursion-fan-out", "warning", "An entry wakes much of the book.", per="book"
    ),
    # Chance, depth and timers.
    LintCode("LW501", "probability-zero", "error", "The probability is 0."),
    LintCode("LW502", "scan-depth-zero", "error", "The scan depth is 0."),
    LintCode("LW503", "delay-unreachable", "warning", "The delay is longer than chats."),
    LintCode("LW504", "timers-contradict", "warning", "Timers work against each other."),
    LintCode("LW505", "timer-without-effect", "info", "A timer has no effect."),
    # Contents.
    LintCode("LW601", "content-empty", "warning", "The content is empty."),
    LintCode("LW602", "content-repeated", "warning", "Entries have the same content."),
    LintCode(
        "LW603",
        "content-hidden-character",
        "warning",
        "The content holds invisible characters.",
        fixable=True,
    ),
    LintCode("LW604", "macro-without-value", "error", "The content holds a macro without a value."),
    # Cost.
    LintCode("LW701", "constants-over-share", "warning", "Constants take too much.", per="book"),
    LintCode(
        "LW702", "entry-over-budget", "warning", "An entry takes most of the budget.", per="book"
    ),
    LintCode("LW703", "wrapper-cost", "info", "Wrappers cost more than texts.", per="book"),
    # Place and rules.
    LintCode("LW801", "outlet-without-name", "error", "An outlet has no name."),
    LintCode("LW802", "place-unknown", "error", "The position does not exist.", per="book"),
    LintCode("LW803", "audience-empty", "error", "The entry has no audience."),
    LintCode("LW804", "needs-other-program", "warning", "It needs features of other programs."),
    LintCode(
        "LW805", "rule-ignored", "warning", "The policy ignores a rule of entries.", per="book"
    ),
)
BY_NAME: Final[Mapping[str, LintCode]] = {each.name: each for each in TABLE}
BY_CODE: Final[Mapping[str, LintCode]] = {each.code: each for each in TABLE}


def matching(wanted: str) -> frozenset[str]:
    """Return the codes that a code, a name, or the beginning of a code stands for.

    >>> sorted(matching("LW00"))[:2], sorted(matching("no-trigger")), matching("LX")
    (['LW001', 'LW002'], ['LW001'], frozenset())
    """
    named = BY_NAME.get(wanted.lower())
    if named is not None:
        return frozenset({named.code})
    return frozenset(code for code in BY_CODE if code.startswith(wanted.upper()))
