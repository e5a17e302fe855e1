"""Entries activated from outside the scan, for example by a vector search.

Source: docs/rules/sillytavern.md §13.
"""

from __future__ import annotations

from collections.abc import Iterable

from lorewell.engine.sillytavern.item import OUTSIDE, ScanItem
from lorewell.engine.sillytavern.javascript import MISSING, as_parsed
from lorewell.engine.sillytavern.scan_entry import read_scan_entry, steps_to_read
from lorewell.engine.sillytavern.sources import EntryList, EntryLocation
from lorewell.engine.steps import Steps
from lorewell.model.activate import ForcedEntry


def queue(forced: Iterable[ForcedEntry], entries: EntryList, steps: Steps) -> dict[str, ScanItem]:
    """Return the forced copies by "book.uid"; unknown entries are left out."""
    queued: dict[str, ScanItem] = {}
    first: dict[str, EntryLocation | None] = {}
    for each in forced:
        if each.entry is not None:
            if "world" not in each.entry or "uid" not in each.entry:
                continue
            steps.spend("compile", steps_to_read(each.entry))
            fields = as_parsed(each.entry)
            entry = read_scan_entry(fields, digest=fields.get("hash", MISSING))
        else:
            ref = each.ref or ""
            if ref not in first:
                first[ref] = min(entries.with_id(ref), default=None)
            location = first[ref]
            if location is None:
                continue
            entry = original = entries.entries[location.place]
            if each.override:
                fields = {**original.fields, **as_parsed(each.override)}
                steps.spend("compile", steps_to_read(fields))
                entry = read_scan_entry(fields, digest=original.hash)
        queued[entry.id] = ScanItem(entry, OUTSIDE, OUTSIDE)
    return queued
