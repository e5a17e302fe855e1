"""Native fields under `extensions.lorewell`, where exports write what SillyTavern has no name for.

Source: docs/rules/formats.md §14.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from lorewell.engine.sillytavern.entry.fields import INHERITED, LACKING, member
from lorewell.engine.sillytavern.entry.table import TABLE
from lorewell.engine.sillytavern.entry.values import RepairNotes, shown
from lorewell.errors import ValidationFailedError
from lorewell.model import Entry
from lorewell.model.parse import parse_model

OWN: Final = "extensions/lorewell"
OWN_ID: Final = f"{OWN}/id"
OWN_INHERIT: Final = f"{OWN}/inherit"
_APART = frozenset(["id", "source", "sillytavern"])
_MAPPED = frozenset(field.name for field in TABLE if field.place == "core")
# Entry fields without a row in the table, with their defaults.
UNMAPPED: Final[Mapping[str, Any]] = {
    name: info.get_default(call_default_factory=True)
    for name, info in Entry.model_fields.items()
    if name not in _MAPPED | _APART
}


class OwnFields(NamedTuple):
    """What an entry holds under `extensions.lorewell`.

    Attributes:
        fields: values of entry fields that are valid.
        inherit: the flags that are false in the native entry and follow SillyTavern's settings;
            None if the entry does not list any.
    """

    fields: Mapping[str, Any]
    inherit: tuple[str, ...] | None


def read_own(raw: Mapping[str, Any], notes: RepairNotes) -> OwnFields:
    """Return the native fields of a foreign entry; an invalid value is noted and left out."""
    own = member(raw, OWN)
    if not isinstance(own, Mapping):
        return OwnFields({}, None)
    given = {name: own[name] for name in UNMAPPED if name in own}
    listed = own.get("inherit")
    inherit = None
    if isinstance(listed, list):
        inherit = tuple(name for name in INHERITED if name in listed)
    return OwnFields(_valid(given, notes), inherit)


def _valid(given: Mapping[str, Any], notes: RepairNotes) -> Mapping[str, Any]:
    """Return the values as the model reads them, without those that it refuses."""
    if not given:
        return {}
    try:
        entry = parse_model(Entry, {"content": "", **given})
    except ValidationFailedError:
        if len(given) > 1:
            parts = [_valid({name: value}, notes) for name, value in given.items()]
            return {name: value for part in parts for name, value in part.items()}
        (name, value), *_ = given.items()
        notes.at = f"/{OWN}/{name}"
        notes.add("wrong_type", f"Invalid value {shown(value)}; it is ignored.")
        return {}
    return {name: getattr(entry, name) for name in given}


def given_id(raw: Mapping[str, Any]) -> str | None:
    """Return the native id that an export wrote into the entry; None if there is none."""
    found = member(raw, OWN_ID)
    return found if found is not LACKING and isinstance(found, str) and found else None
