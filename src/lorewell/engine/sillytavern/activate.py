"""Runs one turn of the policy `sillytavern`: timed effects, scan, output."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from lorewell.engine.sillytavern.budget import TextCounter
from lorewell.engine.sillytavern.forced import queue
from lorewell.engine.sillytavern.item import ScanItem
from lorewell.engine.sillytavern.javascript import MISSING, as_text, in_object_order
from lorewell.engine.sillytavern.ledger import Ledger
from lorewell.engine.sillytavern.output import Output
from lorewell.engine.sillytavern.releases import profile_of, surcharge_of
from lorewell.engine.sillytavern.scan import Scan
from lorewell.engine.sillytavern.sources import EntryList, Library
from lorewell.engine.sillytavern.timed import TimedEffects
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import TokenCounter, shipped_counter
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.activated import (
    ActivatedEntry,
    BudgetFigures,
    EventKind,
    SillyTavernResponse,
    Verdict,
)
from lorewell.model.scene_fields import unused_members, with_scene
from lorewell.model.warning import unused_warnings

_STEPS_PER_ACTIVE: Final = 4
_CHARS_PER_STEP, _EVENTS_PER_STEP = 1_000, 4


def activate(
    library: Library,
    request: SillyTavernRequest,
    *,
    counter: TokenCounter | None = None,
    steps: Steps | None = None,
) -> SillyTavernResponse:
    """Activate entries as SillyTavern does.

    Args:
        library: the books that the request names, each with its source.
        request: the turn; its `books` are already in the library.
        counter: the token counter; by default that of the request, or `cl100k_base`.
        steps: the step budget of the turn; `Steps()` by default.

    Raises:
        TooExpensiveError: the turn needs more than `steps`.
        ValidationFailedError: the scan needs more draws than the request has, or its tokenizer is
            not one that ships.

    Source: docs/rules/sillytavern.md §8.
    """
    counter = counter or shipped_counter(request.tokenizer)
    steps = steps or Steps()
    unused = unused_members(request.scene, "sillytavern")
    request = with_scene(request, request.scene, "sillytavern")
    is_off = request.scene is not None
    library = Library(()) if is_off else library
    cached = library.cached_counts(counter)
    extra, before_blank = surcharge_of(request, counter.name)
    tally = TextCounter(counter, extra, steps, before_blank=before_blank, cached=cached)
    ledger = Ledger(steps, kept=request.explain == "full")
    entries = library.in_order(request.settings.world_info_character_strategy)
    timed = TimedEffects.of(request.timed_state, request.length, entries)
    if not (request.dry_run or is_off):
        timed.check(ledger, steps)
    forced = queue(request.forced, entries, steps)
    scan = Scan(
        entries,
        request,
        timed=timed,
        forced=forced,
        tally=tally,
        ledger=ledger,
    )
    if entries.entries:
        scan.run()
    chars = sum(len(item.content) for item in scan.active.values())
    steps.spend("output", _STEPS_PER_ACTIVE * len(scan.active) + chars // _CHARS_PER_STEP)
    if request.settings.expand_when_placed:
        for item in scan.active.values():
            item.content = scan.macros.expand(item.content, item.id, "/content")
    output = Output.of(scan.active.values(), ledger)
    if not request.dry_run:
        timed.set(item.entry for item in scan.active.values())
    note = request.authors_note
    merged = output.merge_note(note)
    if not entries.entries and note is not None:
        merged = note.value if note.insert else None
    return SillyTavernResponse(
        activated=tuple(map(_activated, scan.active.values())),
        world_info_before="\n".join(output.before),
        world_info_after="\n".join(output.after),
        examples=tuple(output.examples),
        depth_groups=output.depth_groups,
        authors_note_top=tuple(output.note_top),
        authors_note_bottom=tuple(output.note_bottom),
        outlets={name: tuple(output.outlets[name]) for name in in_object_order(output.outlets)},
        authors_note=merged,
        timed_state=request.timed_state if is_off else timed.state,
        forced=() if entries.entries else request.forced,
        budget=BudgetFigures(
            limit=scan.limit if entries.entries else None,
            used=scan.used,
            overflowed=scan.overflowed,
            tokenizer=tally.name,
        ),
        draws_used=scan.draws.used,
        variables=scan.macros.state.variables.to_json(),
        chat_hash=scan.macros.state.chat_hash,
        banned=tuple(scan.macros.state.banned),
        warnings=(*unused_warnings(unused, "sillytavern"), *scan.macros.warnings),
        loops=tuple(ledger.loops),
        events=tuple(ledger.events),
        verdicts=_verdicts(entries, scan, ledger, steps) if ledger.kept else (),
        policy_version=profile_of(request.settings).policy_version,
    )


def _verdicts(entries: EntryList, scan: Scan, ledger: Ledger, steps: Steps) -> tuple[Verdict, ...]:
    """Return the verdict on every entry, in the order of the list."""
    steps.spend("ledger", len(entries.entries) + len(ledger.events) // _EVENTS_PER_STEP)
    verdicts = list(entries.idle())
    known: dict[str, tuple[bool, EventKind, int]]
    rejections = ledger.last_rejections()
    known = {entry: (False, event.kind, event.loop) for entry, event in rejections.items()}
    known |= {item.id: (True, item.why, item.loop) for item in scan.active.values()}
    for entry, (activated, reason, loop) in known.items():
        for place, _ in entries.with_id(entry):
            verdicts[place] = replace(
                verdicts[place], activated=activated, reason=reason, loop=loop
            )
    return tuple(verdicts)


def _activated(item: ScanItem) -> ActivatedEntry:
    entry, found = item.entry, item.found
    return ActivatedEntry(
        id=item.id,
        book=as_text(entry.fields.get("world", MISSING)),
        uid=entry.fields.get("uid"),
        content=item.content,
        order=None if math.isnan(entry.order) else entry.order,
        position=entry.position,
        reason=item.why,
        key=found.key,
        hit=found.place.hit if found.place else None,
        loop=item.loop,
    )
