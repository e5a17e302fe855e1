"""docs/live.md: its frames are frames of the live channel, and every member has a row."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter

from docs.manual import code_blocks, row_names, section
from lorewell.model.live import (
    LiveEntry,
    LiveFrame,
    LiveGroup,
    LiveMissed,
    LiveReady,
    LiveSelection,
    LiveStats,
    MissedReason,
)

MANUAL = "docs/live.md"
KINDS: dict[str, type] = {"ready": LiveReady, "selection": LiveSelection, "missed": LiveMissed}


def test_frames_are_those_of_the_channel() -> None:
    frames = [json.loads(block.text) for block in code_blocks(MANUAL) if block.language == "json"]
    assert [frame["type"] for frame in frames] == list(KINDS)
    for frame in frames:
        TypeAdapter(LiveFrame).validate_python(frame)
        check_members(frame, KINDS[frame["type"]])


def check_members(shown: Any, kind: Any) -> None:
    """Assert that a value has members of its dataclass alone, however deep."""
    if not is_dataclass(kind):
        for each in shown if isinstance(shown, list) else ():
            check_members(each, get_args(kind)[0])
        return
    hints = get_type_hints(kind)
    assert set(shown) <= {field.name for field in fields(kind)}
    for name, value in shown.items():
        check_members(value, hints[name])


def test_counts_of_the_example_add_up() -> None:
    (shown,) = (
        json.loads(block.text) for block in code_blocks(MANUAL) if '"selection"' in block.text
    )
    entries = [entry for group in shown["groups"] for entry in group["entries"]]
    stats = shown["stats"]
    assert stats["total"] == len(entries) == sum(stats["by_reason"].values())
    assert stats["total"] == sum(position["count"] for position in stats["by_position"])
    assert stats["tokens"] == sum(entry["tokens"] for entry in entries)


def test_every_member_of_a_selection_has_a_row() -> None:
    table = section(MANUAL, "`selection`").partition("| Member |")[2]
    first_cells = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    named = set(re.findall(r"`(?:\w+(?:\[\])?\.)?(\w+)`", " ".join(first_cells)))
    members = {
        field.name
        for kind in (LiveSelection, LiveGroup, LiveEntry, LiveStats)
        for field in fields(kind)
    }
    # `type` is said above; `book` stands in for `book_id`.
    assert named == members - {"type", "book", "stats"}
    assert "`book`" in table


def test_every_reason_of_a_gap_has_a_row() -> None:
    assert set(row_names(section(MANUAL, "`missed`"))) - {"reason"} == set(get_args(MissedReason))
