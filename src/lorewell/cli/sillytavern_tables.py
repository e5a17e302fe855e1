"""A scan under SillyTavern's rules as tables: loop by loop, then the texts by place."""

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
from lorewell.model.activated import (
    Event,
    Hit,
    Loop,
    SillyTavernResponse,
    Verdict,
)
from lorewell.model.plain import plain

MAX_LISTED = 20  # entries in one cell; the JSON lists them all
_SHOWN_CHARS = 240  # of a text; the JSON has the whole
_SHORT_CHARS = 40  # of a key, a comment, a name
_ROLES = {0: "system", 1: "user", 2: "assistant"}
_STATES = {"initial": "first scan", "recursion": "recursion", "min_activations": "more messages"}

# Why an entry is a candidate; `{hit}` is the place of the key.
_TRIGGERS: Mapping[str, str] = {
    "decorator_activate": "@@activate",
    "external": "forced by the caller",
    "constant": "constant",
    "sticky": "still sticky",
    "primary": "{key}{hit}",
    "primary_then_secondary": "{key}{hit}",
    "and_any": "and {key}",
    "not_all": "and not {key}",
    "not_any": "and no secondary key",
    "and_all": "and all secondary keys",
}
_SUCCESSES = frozenset(["added"])
_OUTCOMES: Mapping[str, str] = {
    "disabled": "disabled",
    "trigger_filter": "not for this generation type",
    "character_filter": "not for this character",
    "tag_filter": "not for this character's tags",
    "delay": "the chat is still too short",
    "cooldown": "cooling down",
    "delay_until_recursion": "waits for recursion",
    "delay_level": "waits for a later level of recursion",
    "exclude_recursion": "excluded from recursion",
    "decorator_suppress": "@@dont_activate",
    "no_keys": "has no keys",
    "secondary_unsatisfied": "the secondary keys don't match",
    "regex_timeout": "a regex key took too long: {key}",
    "regex_unsupported": "regex keys are unavailable: {key}",
    "group_lost_to_sticky": "group {group} has a sticky entry",
    "group_cooldown_removed": "cooling down in group {group}",
    "group_lost_score": "score {score} of {best} in group {group}",
    "group_prio_winner": "first of group {group}",
    "group_roll_winner": "drawn from group {group}: {roll} <= {threshold}",
    "group_lost": "lost group {group} to {winner}",
    "group_taken": "group {group} has {winner} already",
    "group_mistaken": "removed by mistake instead of {winner}",
    "probability_passed": "roll {roll} <= {threshold}",
    "probability_failed": "roll {roll} > {threshold}",
    "added": "in; {tokens} of {limit} tokens",
    "budget_overflow": "does not fit: {tokens} of {limit} tokens",
    "budget_refused": "the budget is already exceeded",
    "empty_content": "active, but has no text",
    "not_triggered": "no key matched",
}
# Events of the scan rather than of an entry, shown below the loop.
_SCAN_NOTES: Mapping[str, str] = {
    "group_already_active": "group {group} already has an active entry",
    "min_activations_advance": "too few entries are active: {number} messages are scanned next",
    "min_activations_out_of_depth": "too few entries are active, but the scan may go no deeper",
    "next_delay_level": "delay level {number} comes next",
    "max_recursion_steps": "the limit of recursion steps is reached",
    "timed_removed": "a stored {timer} effect ended: {why}",
}
_TIMER_ENDS: Mapping[str, str] = {
    "chat_not_advanced": "the chat has not advanced since",
    "missing_entry": "its entry is gone or has changed",
    "not_configured": "its entry no longer has one",
    "expired": "it expired",
}
_TEXTS: Mapping[str, str] = {
    "persona_description": "the persona description",
    "character_description": "the character description",
    "character_personality": "the character's personality",
    "character_depth_prompt": "the character's depth prompt",
    "scenario": "the scenario",
    "creator_notes": "the creator's notes",
    "prompt": "an injected prompt",
}


def shortened(text: str, limit: int) -> str:
    """Return a text in one line, safe for a terminal, and cut to a limit."""
    return plain(text if len(text) <= limit else text[: limit - 1] + "…")


def _lines(text: str) -> str:
    """Return a text in its own lines, cut to the limit."""
    cut = text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
    return "\n".join(map(plain, cut.split("\n")))


class EntryNames:
    """The display names of entries: their comment if they have one, and "book.uid"."""

    def __init__(self, library: Library) -> None:
        """Take the books of the scan."""
        self._library = library

    @cached_property
    def comments(self) -> Mapping[str, str]:
        """The comment of each entry that has one, by its id."""
        entries = (entry for book in self._library.books for entry in book.world.entries)
        comments = ((entry.id, entry.fields.get("comment")) for entry in entries)
        return {name: text for name, text in comments if isinstance(text, str) and text.strip()}

    def full(self, entry: str) -> Text:
        """Return the id, followed by the comment on its own line."""
        name = Text(plain(entry), style="bold")
        if entry in self.comments:
            name.append(f"\n{shortened(self.comments[entry], _SHORT_CHARS)}", style="not bold")
        return name

    def short(self, entry: str) -> str:
        """Return the comment, or else the id."""
        return shortened(self.comments.get(entry, entry), _SHORT_CHARS)


def timers(state: Mapping[str, Mapping[str, Any]], kind: str, names: EntryNames) -> str:
    """Return the `sticky` or `cooldown` effects, a line each: first and last message."""
    return "\n".join(
        f"{names.short(entry)} {effect['start']:g}→{effect['end']:g}"
        + (" protected" if effect.get("protected") else "")
        for entry, effect in state.get(kind, {}).items()
        if all(isinstance(effect.get(end), int | float) for end in ("start", "end"))
    )


def trace_parts(
    library: Library, request: SillyTavernRequest, answer: SillyTavernResponse
) -> list[RenderableType]:
    """Return the printed scan.

    Args:
        library: the books.
        request: the request.
        answer: its answer, with the whole ledger.
    """
    return list(_ScanView(library, request, answer).parts())


class _ScanView:
    """Formats one scan."""

    def __init__(
        self, library: Library, request: SillyTavernRequest, answer: SillyTavernResponse
    ) -> None:
        self._library = library
        self._request = request
        self._answer = answer
        self._names = EntryNames(library)
        self._last_failures: dict[str, str] = {}  # the check that each entry failed last

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
        if answer.warnings:
            yield self._warnings()

    def _summary(self) -> Text:
        answer, request = self._answer, self._request
        books = ", ".join(f"{plain(b.world.name)} ({b.source})" for b in self._library.books)
        text = Text(books, style="bold")
        user, char = (plain(name) for name in (request.macros.user, request.macros.char))
        depth = min(request.settings.world_info_depth, len(request.chat))
        names = f"{user or 'the user'} and {char or 'the character'}"
        lines = [f"{names}: {len(request.chat)} messages, the last {depth} of them scanned"]
        budget = answer.budget
        tokens = f"{budget.used} of {budget.limit or 0} tokens ({plain(budget.tokenizer)})"
        lines.append(
            f"{len(answer.activated)} of {len(answer.verdicts)} entries active, {tokens}"
            + (", budget exceeded" if budget.overflowed else "")
        )
        before = (event for event in answer.events if event.loop == 0 and event.macro is None)
        lines += [self._line(event, _SCAN_NOTES) for event in before]
        return text.append("\n" + "\n".join(lines) + "\n", style="not bold")

    def _warnings(self) -> Table:
        table = new_table("Warnings")
        for column, ratio in (("Entry", 3), ("Warning", 6)):
            table.add_column(column, overflow="fold", ratio=ratio)
        for warning in self._answer.warnings[:MAX_LISTED]:
            entry = "" if warning.entry is None else self._names.full(warning.entry)
            at = "" if warning.at is None else f" ({warning.at})"
            table.add_row(entry, Text(plain(f"{warning.message}{at}")))
        return table

    def _loop(self, number: int, loop: Loop) -> Iterable[RenderableType]:
        events = [event for event in self._answer.events if event.loop == number]
        title = f"Loop {number}: {_STATES[loop.state]}"
        notes = [self._line(event, _SCAN_NOTES) for event in events if event.kind in _SCAN_NOTES]
        notes.append(
            f"{loop.active} active; the scan ends"
            if loop.next == "stop"
            else f"{loop.active} active; next: {_STATES[loop.next]}"
        )
        rows = self._rows(events)
        if rows:
            table = new_table(title)
            for column, ratio in (("Entry", 3), ("Found by", 4), ("Outcome", 4)):
                table.add_column(column, overflow="fold", ratio=ratio)
            for entry, (triggers, outcomes) in rows.items():
                table.add_row(
                    self._names.full(entry), Text("\n".join(triggers)), Text("\n").join(outcomes)
                )
            yield table
        else:
            yield Text(f"{title}\n\nno new entries", style="bold")
        yield Text("\n".join(notes) + "\n", style="dim")

    def _rows(self, events: Sequence[Event]) -> dict[str, tuple[list[str], list[Text]]]:
        """Return the triggers and outcomes of each entry with new events."""
        rows: dict[str, tuple[list[str], list[Text]]] = {}
        kept_out = 0
        for event in events:
            if event.entry is None or event.macro is not None:
                continue
            if event.kind in _TRIGGERS:
                triggers = rows.setdefault(event.entry, ([], []))[0]
                triggers.append(self._line(event, _TRIGGERS))
            elif event.entry in rows:
                rows[event.entry][1].append(self._outcome(event))
            elif self._last_failures.get(event.entry) != event.kind:
                self._last_failures[event.entry] = event.kind
                kept_out += 1
                if kept_out <= MAX_LISTED:
                    rows[event.entry] = ([], [self._outcome(event)])
        return rows

    def _outcome(self, event: Event) -> Text:
        style = "green" if event.kind in _SUCCESSES else "yellow"
        if event.kind in ("probability_passed", "group_prio_winner", "group_roll_winner"):
            style = "default"
        return Text(self._line(event, _OUTCOMES), style=style)

    def _line(self, event: Event, sentences: Mapping[str, str]) -> str:
        """Return the sentence of an event."""
        facts: dict[str, object] = {
            name: f"{value:.4g}" if isinstance(value, float) else value
            for name, value in event._asdict().items()
        }
        facts |= {
            "key": f"'{shortened(event.key or '', _SHORT_CHARS)}'",
            "group": f"'{shortened(event.group or '', _SHORT_CHARS)}'",
            "winner": plain(event.winner or "nobody"),
            "hit": "" if event.hit is None else f" in {self._place(event.hit)}",
            "why": _TIMER_ENDS.get(event.why or "", ""),
        }
        return sentences.get(event.kind, event.kind).format_map(facts)

    def _place(self, hit: Hit) -> str:
        """Return the place of a key: a message, an entry or another text."""
        request, number = self._request, hit.number
        if hit.text == "recursion":
            return plain(hit.woken_by or "an active entry")
        if hit.text != "message" or number is None:
            return _TEXTS[hit.text]
        name = request.chat[number].name
        by = f" ({shortened(name, _SHORT_CHARS)})" if name else ""
        return f"message {number + 1} of {len(request.chat)}{by}"

    def _places(self) -> Table:
        """Return a table of the places that hold texts."""
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
        table = new_table("Texts by place")
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
        for reason in sorted(groups, key=[*_OUTCOMES].index):
            group = groups[reason]
            names = [self._names.short(verdict.id) for verdict in group[:MAX_LISTED]]
            if len(group) > MAX_LISTED:
                names.append(f"and {len(group) - MAX_LISTED} more")
            table.add_row(Text(reason, style="yellow"), str(len(group)), Text(", ".join(names)))
        return table

    def _ignored(self) -> Table:
        table = new_table("Rules that SillyTavern ignores")
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
    """Return a table of a chat, turn by turn: active entries and timed effects.

    Args:
        library: the books.
        request: holds the whole chat.
        answers: the answer after each message, with events.
    """
    names = EntryNames(library)
    table = new_table("Turn by turn; timed effects from message to message")
    table.add_column("#", justify="right", no_wrap=True)
    for column, ratio in (("Message", 4), ("Active", 4), ("Sticky", 3), ("Cooldown", 3)):
        table.add_column(column, overflow="fold", ratio=ratio)
    for number, (line, answer) in enumerate(zip(request.chat, answers, strict=True), 1):
        spoken = Text(shortened(line.name, _SHORT_CHARS) + ": " if line.name else "", style="dim")
        spoken.append(shortened(line.content, _SHORT_CHARS), style="not dim")
        cells = [Text(timers(answer.timed_state, kind, names)) for kind in ("sticky", "cooldown")]
        table.add_row(str(number), spoken, _active(answer, names), *cells)
    return table


def _active(answer: SillyTavernResponse, names: EntryNames) -> Text:
    """Return the active entries, a line each, and the delayed ones."""
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
