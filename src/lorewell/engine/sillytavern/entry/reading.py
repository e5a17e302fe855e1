"""A foreign entry as our book takes it in: fields, needs, kind, and the whole of it as `raw`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lorewell.engine.sillytavern.entry.dynamic import (
    UNCOUNTED,
    DynamicSign,
    Texts,
    find_signs,
    in_table_order,
    kind_of,
    texts_of,
)
from lorewell.engine.sillytavern.entry.fields import (
    UnreadMembers,
    needs_of,
    read_entry,
    unread,
    with_ways,
)
from lorewell.engine.sillytavern.entry.table import TABLE, ByName, Form
from lorewell.engine.sillytavern.entry.values import Repair
from lorewell.engine.steps import Steps

__all__ = ["Form", "ImportedEntry", "Repair", "import_entry", "requirements_of"]

_KNOWN = with_ways(
    ["uid", "id", "use_regex", *(name.path for field in TABLE for name in field.names["card"])]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedEntry:
    """An entry for a BookCreate, and what is to be said of it.

    Attributes:
        entry: all Entry fields that an import sets; `sillytavern` only where it says something.
        texts: all texts of the entry as its file has it.
        signs: what blocks it, and where that shows; `runtime_requirements` name it once.
        repairs: what was mended, or can't be held.
        unread: members that nothing here acts on; they stay in `source.raw`.
    """

    entry: dict[str, Any]
    texts: Texts
    signs: tuple[DynamicSign, ...]
    repairs: tuple[Repair, ...]
    unread: UnreadMembers


def import_entry(
    raw: Mapping[str, Any],
    *,
    form: Form,
    entry_id: str,
    source_format: str,
    steps: Steps | None = None,
) -> ImportedEntry:
    """Return a foreign entry, ready for the entries of a BookCreate.

    Args:
        raw: the entry as its file has it. It is stored whole, neither changed nor copied.
        form: the dialect of the file.
        entry_id: the entry's id; the caller makes it unique.
        source_format: names the file's format in `source`.
        steps: counts the work; without it the work is not bounded.

    Raises:
        TooExpensiveError: the steps are spent.

    Source: docs/rules/native.md §11.4, §11.5.
    """
    steps = Steps(UNCOUNTED) if steps is None else steps
    read = read_entry(raw, form=form)
    texts = tuple(texts_of(raw, steps))
    signs = (*read.needs, *find_signs(read.core["content"], read.core["title"], texts, steps))
    requirements = in_table_order(sign.requirement for sign in signs)
    entry: dict[str, Any] = {
        "id": entry_id,
        **read.core,
        "kind": kind_of(requirements),
        "runtime_requirements": requirements,
        "source": {"format": source_format, "raw": raw},
    }
    if read.block:
        entry["sillytavern"] = dict(read.block)
    return ImportedEntry(
        entry=entry,
        texts=texts,
        signs=signs,
        repairs=read.repairs,
        unread=unread(raw, _KNOWN, steps),
    )


def requirements_of(raw: Mapping[str, Any], found: ByName) -> tuple[str, ...]:
    """Return the `runtime_requirements` that an import gives a raw entry, and nothing else of it.

    Args:
        raw: the entry as its file has it.
        found: what its fields say; see `read_values`.
    """
    texts = tuple(texts_of(raw, Steps(UNCOUNTED)))
    signs = find_signs(found["content"], found["title"], texts)
    words = [word for word, _ in needs_of(found)]
    return in_table_order([*words, *(sign.requirement for sign in signs)])
