"""A scan by SillyTavern's rules, told to people: loop by loop, then what went where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lorewell.cli.tables import new_table
from lorewell.engine.sillytavern.sources import Library
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.activated import Event, Hit, Loop, SillyTavernResponse, Verdict
from lorewell.model.plain import plain

MAX_LISTED = 20  # entries in one place; the JSON has all
_SHOWN_CHARS = 240  # of a text; the JSON has all
_SHORT_CHARS = 40  # of a key, a comment, a name
_ROLES = {0: "system", 1: "user", 2: "assistant"}
_STATES = {"initial": "first scan", "recursion": "recursion", "min_activations": "more messages"}

# Why an entry is a candidate; where a key was found is said behind it.
_WHY: Mapping[str, str] = {
    "decorator_activate": "@@activate",
    "external": "forced from outside",
    "constant": "constant",
    "sticky": "still sticky",
    "primary": "{key}{hit}",
    "primary_then_secondary": "{key}{hit}",
    "and_any": "and {key}",
    "not_all": "and not {key}",
    "not_any": "and no secondary key",
    "and_all": "and all secondary keys",
}
_IN = frozenset(["added"])
_BECAME: Mapping[str, str] = {
    "disabled": "switched off",
    "trigger_filter": "not for this kind of generation",
    "character_filter": "not for this character",
    "tag_filter": "not for this character's tags",
    "delay": "the chat is too short yet",
    "cooldown": "cooling down",
    "delay_until_recursion": "waits for recursion",
    "delay_level": "waits for a later level of recursion",
    "exclude_recursion": "not by recursion",
    "decorator_suppress": "@@dont_activate",
    "no_keys": "has no keys",
    "secondary_unsatisfied": "the secondary keys say no",
    "regex_timeout": "a regex key took too long: {key}",
    "regex_unsupported": "regex keys are not available: {key}",
    "group_lost_to_sticky": "group {group} has a sticky entry",
    "group_cooldown_removed": "cooling down in group {group}",
    "group_lost_score": "score {score} of {best} in group {group}",
    "group_prio_winner": "first of group {group}",
    "group_roll_winner": "drawn from group {group}: {roll} <= {threshold}",
    "group_lost": "lost group {group} to {winner}",
    "group_taken": "group {group} has {winner} already",
    "group_mistaken": "removed by mistake in place of {winner}",
    "probability_passed": "roll {roll} <= {threshold}",
    "probability_failed": "roll {roll} > {threshold}",
    "added": "in; {tokens} of {limit} tokens",
    "budget_overflow": "does not fit: {tokens} of {limit} tokens",
    "budget_refused": "the budget was exceeded before",
    "empty_content": "active, and has no text",
    "not_triggered": "no key was found",
}
# What is said below a loop, of the scan and not of an entry.
_NOTED: Mapping[str, str] = {
    "group_already_active": "group {group} is decided",
    "min_activations_advance": "too few are active: {number} messages are looked at next",
    "min_activations_out_of_depth": "too few are active, and no more messages may be looked at",
    "next_delay_level": "level {number} of delayed entries comes next",
    "max_recursion_steps": "no more loops are allowed",
    "timed_removed": "a stored {timer} effect ended: {why}",
}
_ENDED: Mapping[str, str] = {
    "chat_not_advanced": "the chat has not gone on since",
    "missing_entry": "no entry fits it any more",
    "not_configured": "its entry has none any more",
    "expired": "its time is up",
}
_TEXTS: Mapping[str, str] = {
    "persona_description": "the persona's description",
    "character_description": "the character's description",
    "character_personality": "the character's personality",
    "character_depth_prompt": "the character's depth prompt",
    "scenario": "the scenario",
    "creator_notes": "the creator's notes",
    "prompt": "an injected prompt",
}


def shortened(text: str, limit: int) -> str:
    """Return a text in one line, safe for a terminal, and cut where it is longer than a limit."""
    return plain(text if len(text) <= limit else text[: limit - 1] + "…")


def _lines(text: str) -> str:
    """Return a text in its own lines, cut where it is long."""
    cut = text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
    return "\n".join(map(plain, cut.split("\n")))


class EntryNames:
    """What entries are called: by their comment, where they have one, and by "book.uid"."""

    def __init__(self, library: Library) -> None:
        """Take the books that count."""
        self._library = library

    @cached_property
    def comments(self) -> Mapping[str, str]:
        """The comment of each entry that has one, by its id."""
        entries = (entry for book in self._library.books for entry in book.world.entries)
        told = ((entry.id, entry.fields.get("comment")) for entry in entries)
        return {name: text for name, text in told if isinstance(text, str) and text.strip()}

    def full(self, entry: str) -> Text:
        """Return the id, and the comment in a line of its own."""
        told = Text(plain(entry), style="bold")
        if entry in self.comments:
            told.append(f"\n{shortened(self.comments[entry], _SHORT_CHARS)}", style="not bold")
        return told

    def short(self, entry: str) -> str:
        """Return the comment, or else the id."""
        return shortened(self.comments.get(entry, entry), _SHORT_CHARS)


def timers(state: Mapping[str, Mapping[str, Any]], kind: str, names: EntryNames) -> str:
    """Return the effects of a kind, `sticky` or `cooldown`, a line each: from and to message."""
    return "\n".join(
        f"{names.short(entry)} {effect['start']:g}→{effect['end']:g}"
        + (" protected" if effect.get("protected") else "")
        for entry, effect in state.get(kind, {}).items()
        if all(isinstance(effect.get(end), int | float) for end in ("start", "end"))
    )


def trace_parts(
    library: Library, request: SillyTavernRequest, answer: SillyTavernResponse
) -> list[RenderableType]:
    """Return what to print of one turn.

    Args:
        library: the books.
        request: what was asked.
        answer: what came of it, with its whole ledger.
    """
    return list(_Trace(library, request, answer).parts())


class _Trace:
    """Puts one scan into words."""

    def __init__(
        self, library: Library, request: SillyTavernRequest, answer: SillyTavernResponse
    ) -> None:
        self._library = library
        self._request = request
        self._answer = answer
        self._names = EntryNames(library)
        self._told: dict[str, str] = {}  # the last check that each entry failed

    def parts(self) -> Iterable[RenderableType]:
        answer = self._answer
        yield self._summary()
        for number, loop in enumerate(answer.loops, 1):
            yield from self._loop(number, loop)
        if answer.activated:
            yield self._places()
        if any(answer.timed_state.values()):
            yield self._timers()
        if any(not verdict.activated for verdict in answer.verdicts):
            yield self._left_out()
        if any(verdict.ignored_rules for verdict in answer.verdicts):
            yield self._ignored()

    def _summary(self) -> Text:
        answer, request = self._answer, self._request
        books = ", ".join(f"{plain(b.world.name)} ({b.source})" for b in self._library.books)
        told = Text(books, style="bold")
        user, char = (plain(name) for name in (request.macros.user, request.macros.char))
        depth = min(request.settings.world_info_depth, len(request.chat))
        who = f"{user or 'the user'} and {char or 'the character'}"
        lines = [f"{who}: {len(request.chat)} messages, the last {depth} of them scanned"]
        budget = answer.budget
        tokens = f"{budget.used} of {budget.limit or 0} tokens ({plain(budget.tokenizer)})"
        lines.append(
            f"{len(answer.activated)} of {len(answer.verdicts)} entries active, {tokens}"
            + (", not all fit" if budget.overflowed else "")
        )
        lines += [self._line(event, _NOTED) for event in answer.events if event.loop == 0]
        return told.append("\n" + "\n".join(lines) + "\n", style="not bold")

    def _loop(self, number: int, loop: Loop) -> Iterable[RenderableType]:
        events = [event for event in self._answer.events if event.loop == number]
        title = f"Loop {number}: {_STATES[loop.state]}"
        notes = [self._line(event, _NOTED) for event in events if event.kind in _NOTED]
        notes.append(
            f"{loop.active} active; the scan ends"
            if loop.next == "stop"
            else f"{loop.active} active; goes on: {_STATES[loop.next]}"
        )
        rows = self._rows(events)
        if rows:
            table = new_table(title)
            for column, ratio in (("Entry", 3), ("Found by", 4), ("What became of it", 4)):
                table.add_column(column, overflow="fold", ratio=ratio)
            for entry, (why, became) in rows.items():
                table.add_row(
                    self._names.full(entry), Text("\n".join(why)), Text("\n").join(became)
                )
            yield table
        else:
            yield Text(f"{title}\n\nnothing new", style="bold")
        yield Text("\n".join(notes) + "\n", style="dim")

    def _rows(self, events: Sequence[Event]) -> dict[str, tuple[list[str], list[Text]]]:
        """Return, for each entry that something new happened to, why and what."""
        rows: dict[str, tuple[list[str], list[Text]]] = {}
        kept_out = 0
        for event in events:
            if event.entry is None:
                continue
            if event.kind in _WHY:
                why = rows.setdefault(event.entry, ([], []))[0]
                why.append(self._line(event, _WHY))
            elif event.entry in rows:
                rows[event.entry][1].append(self._became(event))
            elif self._told.get(event.entry) != event.kind:
                self._told[event.entry] = event.kind
                kept_out += 1
                if kept_out <= MAX_LISTED:
                    rows[event.entry] = ([], [self._became(event)])
        return rows

    def _became(self, event: Event) -> Text:
        style = "green" if event.kind in _IN else "yellow"
        if event.kind in ("probability_passed", "group_prio_winner", "group_roll_winner"):
            style = "default"
        return Text(self._line(event, _BECAME), style=style)

    def _line(self, event: Event, sentences: Mapping[str, str]) -> str:
        """Return an event in words."""
        facts: dict[str, object] = {
            name: f"{value:.4g}" if isinstance(value, float) else value
            for name, value in event._asdict().items()
        }
        facts |= {
            "key": f"'{shortened(event.key or '', _SHORT_CHARS)}'",
            "group": f"'{shortened(event.group or '', _SHORT_CHARS)}'",
            "winner": plain(event.winner or "nobody"),
            "hit": "" if event.hit is None else f" in {self._place(event.hit)}",
            "why": _ENDED.get(event.why or "", ""),
        }
        return sentences.get(event.kind, event.kind).format_map(facts)

    def _place(self, hit: Hit) -> str:
        """Return where a key was found."""
        request, number = self._request, hit.number
        if hit.text == "recursion":
            return plain(hit.woken_by or "what was activated")
        if hit.text != "message" or number is None:
            return _TEXTS[hit.text]
        name = request.chat[number].name
        by = f" ({shortened(name, _SHORT_CHARS)})" if name else ""
        return f"message {number + 1} of {len(request.chat)}{by}"

    def _places(self) -> Table:
        """Return every place that holds a text, and the text."""
        answer = self._answer
        rows: list[tuple[str, Sequence[str]]] = [
            ("before the character", [answer.world_info_before]),
            ("after the character", [answer.world_info_after]),
            ("before the examples", [e.content for e in answer.examples if e.position == 0]),
            ("after the examples", [e.content for e in answer.examples if e.position == 1]),
            ("above the author's note", answer.authors_note_top),
            ("below the author's note", answer.authors_note_bottom),
        ]
        for group in answer.depth_groups:
            depth = plain(str(group.depth)) if group.has_depth else "none"
            role = _ROLES.get(group.role, group.role) if isinstance(group.role, int) else group.role
            rows.append((f"at depth {depth} as {plain(str(role))}", group.entries))
        for name, held in answer.outlets.items():
            rows.append((f"outlet {shortened(name, _SHORT_CHARS)}", held))
        table = new_table("Where it goes")
        table.add_column("Place", overflow="fold", ratio=3)
        table.add_column("Text", overflow="fold", ratio=8)
        for place, texts in rows:
            shown = "\n".join(_lines(text) for text in texts if text)
            if shown:
                table.add_row(Text(place), Text(shown))
        return table

    def _timers(self) -> Table:
        table = new_table("Timed effects, from message to message")
        state = self._answer.timed_state
        for kind in ("sticky", "cooldown"):
            table.add_column(kind.capitalize(), overflow="fold", ratio=1)
        table.add_row(*(Text(timers(state, kind, self._names)) for kind in ("sticky", "cooldown")))
        return table

    def _left_out(self) -> Table:
        table = new_table("Left out")
        table.add_column("Reason", overflow="fold", min_width=23)
        table.add_column("Count", justify="right", no_wrap=True)
        table.add_column("Entries", overflow="fold", ratio=1)
        groups: dict[str, list[Verdict]] = {}
        for verdict in self._answer.verdicts:
            if not verdict.activated:
                groups.setdefault(verdict.reason, []).append(verdict)
        for reason in sorted(groups, key=[*_BECAME].index):
            group = groups[reason]
            names = [self._names.short(verdict.id) for verdict in group[:MAX_LISTED]]
            if len(group) > MAX_LISTED:
                names.append(f"and {len(group) - MAX_LISTED} more")
            table.add_row(Text(reason, style="yellow"), str(len(group)), Text(", ".join(names)))
        return table

    def _ignored(self) -> Table:
        table = new_table("Rules that SillyTavern does not know")
        table.add_column("Entry", overflow="fold", ratio=1)
        table.add_column("Rules", overflow="fold", ratio=1)
        ruled = [verdict for verdict in self._answer.verdicts if verdict.ignored_rules]
        for verdict in ruled[:MAX_LISTED]:
            table.add_row(self._names.full(verdict.id), ", ".join(verdict.ignored_rules))
        if len(ruled) > MAX_LISTED:
            table.add_row("", f"and {len(ruled) - MAX_LISTED} more")
        return table


def turns_table(
    library: Library, request: SillyTavernRequest, answers: Iterable[SillyTavernResponse]
) -> Table:
    """Return a chat turn by turn: what is active, and which timed effects there are.

    Args:
        library: the books.
        request: its chat is the whole chat.
        answers: the answer after each message, with events.
    """
    names = EntryNames(library)
    table = new_table("Turn by turn; timed effects from message to message")
    table.add_column("#", justify="right", no_wrap=True)
    for column, ratio in (("Message", 4), ("Active", 4), ("Sticky", 3), ("Cooldown", 3)):
        table.add_column(column, overflow="fold", ratio=ratio)
    for number, (line, answer) in enumerate(zip(request.chat, answers, strict=True), 1):
        said = Text(shortened(line.name, _SHORT_CHARS) + ": " if line.name else "", style="dim")
        said.append(shortened(line.content, _SHORT_CHARS), style="not dim")
        cells = [Text(timers(answer.timed_state, kind, names)) for kind in ("sticky", "cooldown")]
        table.add_row(str(number), said, _active(answer, names), *cells)
    return table


def _active(answer: SillyTavernResponse, names: EntryNames) -> Text:
    """Return the active entries, a line each, and those that a delay keeps out."""
    lines = []
    for entry in answer.activated[:MAX_LISTED]:
        note = " (sticky)" if entry.reason == "sticky" else ""
        lines.append(Text(names.short(entry.id) + note, style="green"))
    if len(answer.activated) > MAX_LISTED:
        lines.append(Text(f"and {len(answer.activated) - MAX_LISTED} more"))
    delayed = {event.entry: None for event in answer.events if event.kind == "delay"}
    held = [names.short(entry) for entry in delayed if entry is not None]
    if held:
        more = [f"and {len(held) - MAX_LISTED} more"] if len(held) > MAX_LISTED else []
        lines.append(Text(f"delayed: {', '.join([*held[:MAX_LISTED], *more])}", style="yellow"))
    return Text("\n").join(lines)
