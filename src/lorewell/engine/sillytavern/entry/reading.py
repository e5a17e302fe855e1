"""Imports a foreign entry: fields, requirements, kind, and the whole entry as `raw`."""

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
    find_unread,
    needs_of,
    read_entry,
    with_parents,
)
from lorewell.engine.sillytavern.entry.table import TABLE, ByName, Form
from lorewell.engine.sillytavern.entry.values import Repair
from lorewell.engine.steps import Steps

__all__ = ["Form", "ImportedEntry", "Repair", "import_entry", "requirements_of"]

_KNOWN = with_parents(
    ["uid", "id", "use_regex", *(name.path for field in TABLE for name in field.names["card"])]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedEntry:
    """An entry for a BookCreate, with the findings of its import.

    Attributes:
        entry: all Entry fields that an import sets; `sillytavern` only if it is not empty.
        texts: all texts of the entry as in its file.
        signs: the unmet requirements with their places; `runtime_requirements` names each once.
        repairs: values that were repaired, or that we can't hold.
        unread: members that no field is read from; they stay in `source.raw`.
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
    """Import a foreign entry.

    Args:
        raw: the entry as in its file. It is stored whole, neither changed nor copied.
        form: the dialect of the file.
        entry_id: the entry's id; the caller makes it unique.
        source_format: the file's format, stored in `source`.
        steps: the step budget; without it the work is not bounded.

    Raises:
        TooExpensiveError: the import needs more than `steps`.

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
        unread=find_unread(raw, _KNOWN, steps),
    )


def requirements_of(raw: Mapping[str, Any], found: ByName) -> tuple[str, ...]:
    """Return the `runtime_requirements` that an import gives a raw entry.

    Args:
        raw: the entry as in its file.
        found: the values of its fields; see `read_values`.
    """
    texts = tuple(texts_of(raw, Steps(UNCOUNTED)))
    signs = find_signs(found["content"], found["title"], texts)
    words = [word for word, _ in needs_of(found)]
    return in_table_order([*words, *(sign.requirement for sign in signs)])
