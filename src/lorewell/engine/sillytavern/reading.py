"""A foreign entry as our book takes it in: fields, needs, kind, and the whole of it as `raw`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lorewell.engine.sillytavern.dynamic import find_dynamic, in_table_order, kind_of
from lorewell.engine.sillytavern.fields import read_entry
from lorewell.engine.sillytavern.table import Form
from lorewell.engine.sillytavern.values import Repair

__all__ = ["Form", "Imported", "Repair", "import_entry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """An entry for a BookCreate, and what is to be said of it.

    Attributes:
        entry: all Entry fields that an import sets; `sillytavern` only where it says something.
        requirements: its `runtime_requirements`, in the table's order.
        repairs: what was mended, or can't be held.
    """

    entry: dict[str, Any]
    requirements: tuple[str, ...]
    repairs: tuple[Repair, ...]


def import_entry(
    raw: Mapping[str, Any], *, form: Form, entry_id: str, source_format: str
) -> Imported:
    """Return a foreign entry, ready for the entries of a BookCreate.

    Args:
        raw: the entry as its file has it. It is stored whole, neither changed nor copied.
        form: the dialect of the file.
        entry_id: the entry's id; the caller makes it unique.
        source_format: names the file's format in `source`.

    Source: spec/native.md §11.4, §11.5.
    """
    read = read_entry(raw, form=form)
    signs = find_dynamic(read.core["content"], read.core["title"], raw)
    requirements = in_table_order((*read.requirements, *signs))
    entry: dict[str, Any] = {
        "id": entry_id,
        **read.core,
        "kind": kind_of(requirements),
        "runtime_requirements": requirements,
        "source": {"format": source_format, "raw": raw},
    }
    if read.block:
        entry["sillytavern"] = dict(read.block)
    return Imported(entry=entry, requirements=requirements, repairs=read.repairs)
