"""Imports a foreign entry: fields, requirements, kind, and the whole entry as `raw`."""

from __future__ import annotations

from collections.abc import Container, Mapping
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
from lorewell.engine.sillytavern.entry.own import (
    OWN,
    OWN_ID,
    OWN_INHERIT,
    UNMAPPED,
    OwnFields,
    read_own,
)
from lorewell.engine.sillytavern.entry.table import TABLE, ByName, Form
from lorewell.engine.sillytavern.entry.values import Repair, RepairNotes
from lorewell.engine.steps import Steps
from lorewell.model.entry import THREE_VALUED

__all__ = ["Form", "ImportedEntry", "Repair", "import_entry", "requirements_of"]

_KNOWN = with_parents(
    [
        *("uid", "id", "use_regex", OWN_ID, OWN_INHERIT),
        *(f"{OWN}/{name}" for name in UNMAPPED),
        *(name.path for field in TABLE for name in field.dialect_names),
    ]
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
    notes = RepairNotes()
    own = read_own(raw, notes)
    _warn_of_waived(requirements, own, notes)
    entry: dict[str, Any] = {
        "id": entry_id,
        **read.core,
        "kind": kind_of(requirements),
        "runtime_requirements": requirements,
        **own.fields,
        "source": {"format": source_format, "raw": raw},
    }
    block = dict(read.block)
    if own.inherit is None:
        entry["source"][THREE_VALUED] = True
    else:
        unset = [name for name in own.inherit if entry[name] is None]
        entry |= dict.fromkeys(unset, False)
        block["inherit"] = tuple(name for name in own.inherit if name in unset or entry[name])
    if block:
        entry["sillytavern"] = block
    return ImportedEntry(
        entry=entry,
        texts=texts,
        signs=signs,
        repairs=(*read.repairs, *notes.repairs),
        unread=find_unread(raw, _known(read.repairs), steps),
    )


def _known(repairs: tuple[Repair, ...]) -> Container[str]:
    """Return the paths that are read, with the aliases that were."""
    aliases = [repair.pointer[1:] for repair in repairs if repair.code == "alias_read"]
    return _KNOWN.union(aliases) if aliases else _KNOWN


def _warn_of_waived(found: tuple[str, ...], own: OwnFields, notes: RepairNotes) -> None:
    """Note the requirements that the texts of an entry have and its own list leaves out."""
    listed = own.fields.get("runtime_requirements", found)
    waived = [word for word in found if word not in listed]
    if waived:
        notes.at = f"/{OWN}/runtime_requirements"
        message = f"The entry's own list lacks {', '.join(waived)}, so that these do not block it."
        notes.add("requirements_waived", message)


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
