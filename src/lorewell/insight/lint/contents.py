"""Rules for contents, their cost, and the place where they go."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from lorewell.engine.native.context import cost_of
from lorewell.engine.render import opening_tag
from lorewell.engine.sillytavern.macros.names import is_known, macro_names
from lorewell.engine.template import find_template
from lorewell.engine.tokens import CountedCounter
from lorewell.insight.lint.judged import JudgedBook, JudgedEntry
from lorewell.insight.lint.report import Report, listed, shown
from lorewell.model.text import is_blank

_FEW_ENTRIES: Final = 8
_MOST_OF_BUDGET: Final = 0.5
_MUCH: Final = 1.5
# Requirements of entries that another program expands first.
_OTHER_PROGRAMS: Final = frozenset({"ejs", "mvu", "charinfo", "script"})
_ID: Final = "00000000-0000-8000-8000-000000000000"  # as long as that of any book
_CHARS_PER_STEP: Final = 200


def check_contents(book: JudgedBook, report: Report) -> None:
    """Report contents that are empty, repeated, or hold macros without a value."""
    same: dict[str, list[JudgedEntry]] = defaultdict(list)
    for entry in book.entries:
        book.steps.spend("lint", 1 + len(entry.content) // _CHARS_PER_STEP)
        if is_blank(entry.content):
            if not report.has("no-trigger", entry) and not entry.blocked:
                report.add("content-empty", "The content is empty.", entry, at="content")
            continue
        if not (entry.secondary or entry.limited):
            same[" ".join(entry.content.split()).casefold()].append(entry)
        if not entry.blocked:
            _check_macros(book, entry, report)
    for entries in same.values():
        if len(entries) > 1:
            names = listed(shown(entry.spec.title or entry.id) for entry in entries)
            text = f"{len(entries)} entries have the same content: {names}."
            report.add("content-repeated", text, *entries, at="content")


def _check_macros(book: JudgedBook, entry: JudgedEntry, report: Report) -> None:
    content = entry.content
    if "{{" not in content:
        return
    if book.settings.policy == "sillytavern":
        if not _OTHER_PROGRAMS.isdisjoint(entry.spec.runtime_requirements):
            return
        unknown = [name for name in macro_names(content, book.steps) if not is_known(name)]
        if unknown:
            text = f"The macro {shown(unknown[0])} does not exist; it stays as it is written."
            report.add("macro-without-value", text, entry, at="content")
        return
    template = find_template(content)
    if template is None:
        return
    missing = template.unsupported
    if missing is None and book.settings.variables is not None:
        lacking = sorted(template.variables - book.settings.variables)
        missing = f"{{{{{lacking[0]}}}}}" if lacking else None
    if missing is not None:
        effect = (
            "it stays as it is written"
            if book.settings.policy == "replica"
            else "the entry is never selected"
        )
        start = content.find(missing)
        report.add(
            "macro-without-value",
            f"{shown(missing)} has no value: {effect}.",
            entry,
            at="content",
            span=(start, start + len(missing)) if start >= 0 else None,
        )


def check_costs(book: JudgedBook, report: Report) -> None:
    """Report constants and entries that take too much of the budget, and the cost of wrappers."""
    policy = book.settings.policy
    if policy == "replica":  # which has no budget
        return
    counter = CountedCounter(book.counter, book.steps)
    texts = {entry.index: counter.count(entry.content) for entry in book.entries}
    costs = dict(texts)
    if policy == "native":
        for entry in book.entries:
            tag = opening_tag(f"{_ID}:1:{entry.id}", entry.spec.title)
            costs[entry.index] = cost_of(tag, entry.content, counter)
        _check_wrappers(book, sum(texts.values()), sum(costs.values()), report)
    _check_constants(book, costs, report)
    for entry in book.entries:
        _check_size(book, entry, costs[entry.index], report)


def _ignores_budget(entry: JudgedEntry) -> bool:
    return entry.spec.sillytavern is not None and entry.spec.sillytavern.ignore_budget


def _check_constants(book: JudgedBook, costs: dict[int, int], report: Report) -> None:
    limit = book.settings.constant_tokens
    native = book.settings.policy == "native"
    constants = [
        entry
        for entry in book.entries
        if entry.always
        and not entry.limited
        and not entry.blocked
        and not (entry.spec.required if native else _ignores_budget(entry))
    ]
    total = sum(costs[entry.index] for entry in constants)
    if total > limit:
        text = f"The constants take {total} tokens; {limit} are there for them."
        report.add(
            "constants-over-share",
            text,
            *constants,
            at="constant",
            figures={"tokens": total, "limit_tokens": limit},
        )


def _check_size(book: JudgedBook, entry: JudgedEntry, cost: int, report: Report) -> None:
    budget = book.settings.budget_tokens
    if cost <= budget * _MOST_OF_BUDGET or entry.blocked:
        return
    if book.settings.policy == "sillytavern" and _ignores_budget(entry):
        return
    effect = "so it never fits" if cost > budget else "so little else fits"
    report.add(
        "entry-over-budget",
        f"The entry takes {cost} of {budget} tokens, {effect}.",
        entry,
        at="content",
        figures={"tokens": cost, "limit_tokens": budget},
    )


def _check_wrappers(book: JudgedBook, text: int, whole: int, report: Report) -> None:
    wrapper = whole - text
    if len(book.entries) < _FEW_ENTRIES or wrapper < text * _MUCH:
        return
    report.add(
        "wrapper-cost",
        f"The wrappers of the {len(book.entries)} entries cost {wrapper} tokens, "
        f"their texts {text}.",
        at="entries",
        figures={"wrapper_tokens": wrapper, "text_tokens": text},
    )


def check_places(book: JudgedBook, report: Report) -> None:
    """Report entries that have no place, no reader, or rules that nobody applies."""
    ignored: dict[str, list[JudgedEntry]] = defaultdict(list)
    for entry in book.entries:
        if entry.outlet == "":
            text = "The entry goes to an outlet without a name, so its text is dropped."
            report.add("outlet-without-name", text, entry, at="outlet_name")
        if not entry.has_place:
            text = "The position does not exist, so the text of the entry is placed nowhere."
            report.add("place-unknown", text, entry, at="position")
        if not entry.spec.audience and book.settings.policy == "native":
            report.add(
                "audience-empty", "No request has the entry's audience.", entry, at="audience"
            )
        elif entry.blocked and book.settings.policy == "native":
            _check_needs(entry, report)
        for name in entry.ignored:
            ignored[name].append(entry)
    for name, entries in ignored.items():
        inside = name in type(entries[0].spec).model_fields
        text = f"The policy {book.settings.policy} ignores {name} of {len(entries)} entries."
        report.add("rule-ignored", text, *entries, at=name if inside else f"sillytavern/{name}")


def _check_needs(entry: JudgedEntry, report: Report) -> None:
    needs = entry.spec.runtime_requirements
    if needs:
        names = listed(shown(each) for each in needs)
        text, at = f"The entry is never selected: it needs {names}.", "runtime_requirements"
    else:
        text = f"The entry is never selected: its kind is {entry.spec.kind}."
        at = "kind"
    report.add("needs-other-program", text, entry, at=at)
