"""Rules for entries that depend on others: requirements, groups, conflicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from lorewell.engine.sillytavern.entry.fields import group_of
from lorewell.insight.lint.judged import JudgedBook, JudgedEntry
from lorewell.insight.lint.report import Report, shown
from lorewell.model.text import is_blank

_MAX_PACKAGE: Final = 50
_MAX_CHAIN: Final = 8  # docs/rules/native.md §8.8


def check_groups(book: JudgedBook, report: Report) -> None:
    """Report members that can never win, groups of one, and requirements that can't be met."""
    if book.settings.policy != "sillytavern":
        _check_requires(book, report)
    groups: dict[str, list[JudgedEntry]] = defaultdict(list)
    for entry in book.entries:
        if not entry.blocked:
            for name in dict.fromkeys(entry.groups):
                groups[name].append(entry)
    switched_off = _disabled_groups(book)
    for name, members in groups.items():
        book.steps.spend("lint", len(members))
        label = shown(group_of(name) or name)
        if len(members) == 1:
            if name not in switched_off:
                text = f"The group {label} has one member in this book, so it decides nothing."
                report.add("group-of-one", text, members[0], at=_group_field(members[0]))
        else:
            _check_winner(book, label, members, report)


def _group_field(entry: JudgedEntry) -> str:
    if entry.spec.conflict_key is not None:
        return "conflict_key"
    return "replica/group" if entry.spec.replica is not None else "sillytavern/group"


def _disabled_groups(book: JudgedBook) -> frozenset[str]:
    """Return the groups of disabled entries, which their author may switch on."""
    found: set[str] = set()
    for spec in book.book.entries:
        if not spec.enabled:
            key = spec.conflict_key or ""
            found.update((key, group_of(key)))
            if spec.sillytavern is not None:
                found.update(spec.sillytavern.group.split(","))
    return frozenset(found)


def _is_certain(entry: JudgedEntry) -> bool:
    """Return whether an entry takes part in every turn."""
    return entry.always and not entry.limited and not entry.requires and not is_blank(entry.content)


def _check_winner(
    book: JudgedBook, label: str, members: Sequence[JudgedEntry], report: Report
) -> None:
    policy = book.settings.policy
    certain = [entry for entry in members if _is_certain(entry)]
    if policy == "sillytavern":
        certain = [entry for entry in certain if entry.overrides]
        _check_weights(label, members, report)
    if not certain:
        return
    rank = _RANKS[policy]
    winner = min(certain, key=lambda entry: (rank(entry), entry.index))
    for entry in members:
        if entry is not winner and rank(entry) > rank(winner):
            text = (
                f"The entry can never win its group {label}: "
                f"{shown(winner.spec.title or winner.id)} is there in every turn and goes first."
            )
            report.add("group-never-wins", text, entry, winner, at=_group_field(entry))


def _native_rank(entry: JudgedEntry) -> tuple[float, ...]:
    spec = entry.spec
    kind = 0 if spec.required else 1 if spec.constant else 2
    return (kind, -spec.priority)


def _their_rank(entry: JudgedEntry) -> tuple[float, ...]:
    return (0, -entry.spec.order) if entry.overrides else (1, 0)


def _replica_rank(entry: JudgedEntry) -> tuple[float, ...]:
    return (0 if entry.always else 1, -entry.weight, entry.spec.order)


_RANKS: Final = {
    "native": _native_rank,
    "sillytavern": _their_rank,
    "replica": _replica_rank,
}


def _check_weights(label: str, members: Sequence[JudgedEntry], report: Report) -> None:
    if any(entry.overrides for entry in members) or not any(entry.weight for entry in members):
        return
    for entry in members:
        if entry.weight == 0:
            text = f"The entry can never win its group {label}: its weight is 0."
            report.add("group-never-wins", text, entry, at="sillytavern/group_weight")


def _check_requires(book: JudgedBook, report: Report) -> None:
    by_id = {entry.id: entry for entry in book.entries}
    every = {spec.id: index for index, spec in enumerate(book.book.entries)}
    for entry in book.entries:
        field = "requires" if entry.spec.replica is None or entry.spec.requires else "replica"
        for at, name in enumerate(entry.requires):
            book.steps.spend("lint")
            why = _why_unavailable(entry, name, by_id, every, policy=book.settings.policy)
            if why is not None:
                text = f"The entry can't be selected: it requires {shown(name)}, {why}."
                where = f"requires/{at}" if field == "requires" else f"{field}/requires"
                report.add("requires-unavailable", text, entry, at=where)
                break
        else:
            if entry.requires:
                _check_package(book, entry, by_id, report)


def _why_unavailable(
    entry: JudgedEntry,
    name: str,
    by_id: Mapping[str, JudgedEntry],
    every: Mapping[str, int],
    *,
    policy: str,
) -> str | None:
    needed = by_id.get(name)
    if needed is None:
        return "which is disabled" if name in every else "which does not exist"
    if policy == "replica":
        return None
    if needed is entry:
        return "which is the entry itself"
    if needed.blocked or is_blank(needed.content) or needed.probability == 0:
        return "which is never selected"
    return None


def _check_package(
    book: JudgedBook, entry: JudgedEntry, by_id: Mapping[str, JudgedEntry], report: Report
) -> None:
    """Report a package that is too large, has a circle, or clashes with itself."""
    members = {entry.id: entry}
    level, depth = [entry], 0
    why = None
    while level and why is None:
        following = [by_id[name] for each in level for name in each.requires if name in by_id]
        book.steps.spend("lint", 1 + len(following))
        new = {each.id: each for each in following if each.id not in members}
        if book.settings.policy == "native" and any(each is entry for each in following):
            why = "requires itself through others"
        members |= new
        level = list(new.values())
        depth += 1 if level else 0
        if len(members) > _MAX_PACKAGE or (depth > _MAX_CHAIN and book.settings.policy == "native"):
            why = "requires more entries than a package can hold"
    labels = [name for each in members.values() for name in each.groups]
    if why is None and len(labels) != len(set(labels)):
        why = "requires entries that exclude each other"
    if why is not None:
        report.add(
            "requires-unavailable", f"The entry can't be selected: it {why}.", entry, at="requires"
        )
