"""Rules for entries that wake each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lorewell.insight.lint.judged import JudgedBook, JudgedEntry
from lorewell.insight.lint.report import Report, listed, shown
from lorewell.insight.lint.scanning import TextScan, form_of

_MANY: Final = 8  # woken by one content
_SOME: Final = 4
_SHARE: Final = 10  # of a large book, a tenth
_MOST_COUNTED: Final = 50

# Entries by number; keys follow as the numbers after them.
_Graph = Mapping[int, Sequence[int]]


def check_recursion(book: JudgedBook, scan: TextScan, report: Report) -> None:
    """Report entries that recursion can't reach, circles, and contents that wake very many."""
    for entry in book.entries:
        if entry.level and not entry.blocked:
            _check_reach(book, entry, report)
    if not book.settings.recursion:
        return
    graph = _wake_graph(book, scan)
    _check_circles(book, graph, report)
    for at, entry in enumerate(book.entries):
        _check_fan_out(book, graph, at, entry, report)


def _check_reach(book: JudgedBook, entry: JudgedEntry, report: Report) -> None:
    if not entry.fed:
        why = "the entry waits for recursion and excludes it"
        at = "exclude_recursion"
    elif not book.settings.recursion:
        why, at = "recursion is off", "sillytavern/delay_until_recursion"
    elif not any(other.feeds and other is not entry for other in book.entries):
        why, at = "no other entry feeds recursion", "sillytavern/delay_until_recursion"
    else:
        return
    text = f"Nothing can trigger the entry: {why}."
    report.add("recursion-unreachable", text, entry, at=at)


def _wake_graph(book: JudgedBook, scan: TextScan) -> _Graph:
    """Return which entries wake which, through nodes for keys: so its size is that of the hits."""
    graph: dict[int, list[int]] = defaultdict(list)
    nodes: dict[tuple[object, bool], int] = {}
    first = len(book.entries)
    for at, entry in enumerate(book.entries):
        if not entry.fed or entry.always or entry.blocked or entry.secondary:
            continue
        for key in entry.plain_keys:
            name = (form_of(entry, key), key.alone)
            node = nodes.setdefault(name, first + len(nodes))
            graph[node].append(at)
    for (form, alone), node in nodes.items():
        found = scan.sightings.get(form)  # type: ignore[call-overload]
        if found is None:
            continue
        for at in sorted(found.alone if alone else found.texts):
            entry = book.entries[at]
            if entry.feeds and not entry.blocked:
                graph[at].append(node)
                book.steps.spend("lint")
    return graph


def _check_circles(book: JudgedBook, graph: _Graph, report: Report) -> None:
    count = len(book.entries)
    for component in _components(graph, range(count), book):
        members = sorted(at for at in component if at < count)
        if len(members) > 1:
            entries = [book.entries[at] for at in members]
            names = listed(shown(entry.spec.title or entry.id) for entry in entries)
            text = f"{len(entries)} entries wake each other in a circle: {names}."
            report.add(
                "recursion-cycle", text, *entries, at="content", figures={"entries": len(entries)}
            )


def _components(graph: _Graph, roots: Iterable[int], book: JudgedBook) -> list[list[int]]:
    """Return the strongly connected components with more than one node (Tarjan, no recursion)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in roots:
        if root in order:
            continue
        work = [(root, iter(graph.get(root, ())))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, following = work[-1]
            book.steps.spend("lint")
            for each in following:
                if each not in order:
                    order[each] = low[each] = len(order)
                    stack.append(each)
                    on_stack.add(each)
                    work.append((each, iter(graph.get(each, ()))))
                    break
                if each in on_stack:
                    low[node] = min(low[node], order[each])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    found.append(_popped(stack, on_stack, node))
    return [component for component in found if len(component) > 1]


def _popped(stack: list[int], on_stack: set[int], last: int) -> list[int]:
    component = []
    while True:
        node = stack.pop()
        on_stack.discard(node)
        component.append(node)
        if node == last:
            return component


def _check_fan_out(
    book: JudgedBook, graph: _Graph, at: int, entry: JudgedEntry, report: Report
) -> None:
    woken: set[int] = set()
    for node in graph.get(at, ()):
        for other in graph.get(node, ()):
            book.steps.spend("lint")
            if other != at:
                woken.add(other)
            if len(woken) >= _MOST_COUNTED:
                break
        if len(woken) >= _MOST_COUNTED:
            break
    others = len(book.entries) - 1
    many = len(woken) >= max(_MANY, min(others // _SHARE, _MOST_COUNTED))
    if many or (len(woken) >= _SOME and 2 * len(woken) >= others):
        names = listed(
            shown(book.entries[each].spec.title or book.entries[each].id) for each in sorted(woken)
        )
        at_least = "at least " if len(woken) >= _MOST_COUNTED else ""
        text = f"The content wakes {at_least}{len(woken)} other entries: {names}."
        report.add("recursion-fan-out", text, entry, at="content", figures={"woken": len(woken)})
