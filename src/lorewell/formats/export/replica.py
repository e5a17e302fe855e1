"""Entries as the program SillyTavern_replica has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorewell.model import Entry


def replica_entry(entry: Entry) -> Mapping[str, Any]:
    """Return the entry in the internal form of that program."""
    raw = entry.source.get("raw")
    named = raw if isinstance(raw, Mapping) else {}
    if entry.source.get("format") == "replica":
        return named
    return {
        "uid": entry.id,
        "content": entry.content,
        "comment": entry.title,
        "disable": not entry.enabled,
        "constant": entry.constant,
        "key": list(entry.keys),
        "order": entry.order,
    }
