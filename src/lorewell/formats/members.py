"""Reads a foreign entry member by member into native fields, and notes every repair.

For formats other than SillyTavern's. The whole entry is kept as `source.raw`.

Source: docs/rules/formats.md §0; docs/rules/native.md §11.4, §11.5.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

from lorewell.engine.sillytavern.entry import ImportedEntry, values as v
from lorewell.engine.sillytavern.entry.card_decorators import DecoratedContent
from lorewell.engine.sillytavern.entry.dynamic import (
    DynamicSign,
    find_signs,
    in_table_order,
    kind_of,
    texts_of,
)
from lorewell.engine.sillytavern.entry.fields import (
    INHERITED,
    LACKING,
    find_unread,
    group_of,
    member,
    note_decorators,
    with_parents,
)
from lorewell.engine.sillytavern.entry.table import LOGICS, MAX_LEVEL, MAX_TITLE_CHARS
from lorewell.engine.steps import Steps
from lorewell.model.entry import MAX_KEYS, THREE_VALUED
from lorewell.model.sillytavern import MAX_GROUP_CHARS

USUAL_ORDER: Final = 100  # of an entry without one, as in world info
LEVEL: Final = v.integer(-MAX_LEVEL, MAX_LEVEL)
PERCENT: Final = v.number(0, 100)
LOGIC: Final = v.choice(LOGICS, {word: word for word in LOGICS})
_PLAIN_TEXT: Final = v.text()
_TITLE: Final = v.text(MAX_TITLE_CHARS)
_GROUP: Final = v.text(MAX_GROUP_CHARS)


def comma_list(value: object, notes: v.RepairNotes) -> tuple[str, ...]:
    """Return the keys of a list, or of a text with commas if the format writes keys so."""
    return v.split_keys(value) if isinstance(value, str) else v.keys(value, notes)


def conflict_key(group: str) -> str | None:
    """Return the conflict key of a group; None if the text names no group or several."""
    key = f"group:{group}"
    return key if group_of(key) else None


class Members:
    """Reads the members of one entry and builds the native entry.

    Members are named by their path, with steps joined by "/". Of several names the first one with
    a value counts; null is not a value.
    """

    def __init__(
        self,
        raw: Mapping[str, Any],
        steps: Steps,
        *,
        at: str = "",
        notes: v.RepairNotes | None = None,
        known: set[str] | None = None,
    ) -> None:
        self.raw = raw
        self._steps = steps
        self._at = at
        self._notes = v.RepairNotes() if notes is None else notes
        self._known = {"uid", "id"} if known is None else known

    def within(self, raw: Mapping[str, Any], at: str) -> Members:
        """Return a reader of an object inside the entry that shares this one's notes."""
        at = f"{self._at}/{at}"
        return Members(raw, self._steps, at=at, notes=self._notes, known=self._known)

    def know(self, *names: str) -> None:
        """Mark members as handled, though `read` does not read them."""
        self._known.update(f"{self._at}/{name}"[1:] for name in names)

    def read(self, reader: v.Reader, default: object, *names: str) -> Any:  # noqa: ANN401  a foreign value
        """Return a member's value; the default if it is missing or of a wrong type."""
        self.know(*names)
        for name in names:
            value = member(self.raw, name)
            if value is LACKING or value is None or value == default == "":
                continue
            self._notes.at = f"{self._at}/{name}"
            try:
                return reader(value, self._notes)
            except v.MisfitError:
                self._notes.add(
                    "wrong_type", f"{v.shown(value)} is not valid here; the default is used."
                )
                return default
        return default

    def content(self, *names: str) -> str:
        """Return a text; one that is too long is kept, and the model refuses it."""
        found: str = self.read(_PLAIN_TEXT, "", *names)
        return found

    def title(self, *names: str) -> str:
        """Return a title, cut to its bound."""
        found: str = self.read(_TITLE, "", *names)
        return found

    def flag(self, *names: str, default: bool = False) -> bool:
        """Return whether a flag is set."""
        found: bool = self.read(v.flag, default, *names)
        return found

    def choice(self, *names: str) -> bool | None:
        """Return a flag whose absence leaves the choice to the settings."""
        found: bool | None = self.read(v.flag, None, *names)
        return found

    def keys(self, *names: str, reader: v.Reader = v.keys) -> tuple[str, ...]:
        """Return keys, at most as many as an entry can have: some real files have over 1,000."""
        found: tuple[str, ...] = self.read(reader, (), *names)
        if len(found) > MAX_KEYS:
            many = "or more " if len(found) == v.MAX_ITEMS else ""
            message = (
                f"{len(found)} {many}keys: the first {MAX_KEYS} are used, source.raw has the rest."
            )
            self.note("keys_cut", message)
        return found[:MAX_KEYS]

    def note_patterns(self, keys: Iterable[str]) -> None:
        """Note patterns of AI Dungeon's scripts, such as "Oda|(|the )pilot#[t=5]"."""
        if any("|" in key or "#[" in key for key in keys):
            message = "A script pattern (EWIJSON) is used as plain text and only matches itself."
            self.note("pattern_as_text", message)

    def group(self, *names: str) -> tuple[str | None, str]:
        """Return the conflict key of a group, or else the text with several groups."""
        group: str = self.read(_GROUP, "", *names)
        key = conflict_key(group)
        return key, "" if key else group

    def note(self, code: str, message: str, name: str | None = None) -> None:
        """Note a repair at a member; "" means the whole entry, None the member read last."""
        if name is not None:
            self._notes.at = f"{self._at}/{name}" if name else self._at
        self._notes.add(code, message)

    def note_decorators(self, decorated: DecoratedContent) -> None:
        """Note the decorators of a content that are read, and those that stay in it."""
        note_decorators(decorated, self._notes, at=f"{self._at}/content")

    def note_lost(self, usual: Mapping[str, Container[object]]) -> None:
        """Note all members with unusual values in one message.

        Args:
            usual: by name, the values without an effect.
        """
        found = {name: member(self.raw, name) for name in usual}
        lost = [
            name
            for name, value in found.items()
            if not (value is LACKING or value is None or value in usual[name])
        ]
        self.know(*(usual.keys() - set(lost)))
        if lost:
            message = f"{', '.join(lost)}: not supported; kept in source.raw only."
            self.note("not_kept", message, lost[0])

    def build_entry(
        self,
        entry_id: str,
        source_format: str,
        fields: Mapping[str, Any],
        needs: Mapping[str, str] | None = None,
    ) -> ImportedEntry:
        """Return the native entry; missing fields have the defaults of world info.

        Args:
            entry_id: the entry's id.
            source_format: the file's format for `source`.
            fields: fields of Entry; `title` and `content` must be among them.
            needs: `runtime_requirements` that members express, each with the member's name; those
                in texts are found anyway.
        """
        given = [DynamicSign(word, f"/{name}") for word, name in (needs or {}).items()]
        texts = tuple(texts_of(self.raw, self._steps))
        signs = (*given, *find_signs(fields["content"], fields["title"], texts, self._steps))
        requirements = in_table_order(sign.requirement for sign in signs)
        entry: dict[str, Any] = {
            "id": entry_id,
            "order": USUAL_ORDER,
            "exclude_recursion": False,
            "prevent_recursion": False,
            **dict.fromkeys(INHERITED),
            **fields,
            "kind": kind_of(requirements),
            "runtime_requirements": requirements,
            "source": {"format": source_format, "raw": self.raw},
        }
        if any(entry[name] is None for name in INHERITED):
            entry["source"][THREE_VALUED] = True
        return ImportedEntry(
            entry=entry,
            texts=texts,
            signs=signs,
            repairs=tuple(self._notes.repairs),
            unread=find_unread(self.raw, with_parents(self._known), self._steps),
        )
