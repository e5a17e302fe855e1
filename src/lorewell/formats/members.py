"""A foreign entry read member by member into native fields, with every repair named.

For formats whose entries are not SillyTavern's: their members go straight into fields of ours, and
the whole entry is kept as `source.raw`.

Source: docs/rules/formats.md §0; docs/rules/native.md §11.4, §11.5.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

from lorewell.engine.sillytavern.entry import ImportedEntry, values as v
from lorewell.engine.sillytavern.entry.dynamic import (
    DynamicSign,
    find_signs,
    in_table_order,
    kind_of,
    texts_of,
)
from lorewell.engine.sillytavern.entry.fields import (
    LACKING,
    find_unread,
    group_of,
    member,
    with_parents,
)
from lorewell.engine.sillytavern.entry.table import LOGICS, MAX_LEVEL, MAX_TITLE_CHARS
from lorewell.engine.steps import Steps
from lorewell.model.entry import MAX_KEYS
from lorewell.model.sillytavern import MAX_GROUP_CHARS

USUAL_ORDER: Final = 100  # of an entry that says none, as in world info
LEVEL: Final = v.integer(-MAX_LEVEL, MAX_LEVEL)
PERCENT: Final = v.number(0, 100)
LOGIC: Final = v.choice(LOGICS, {word: word for word in LOGICS})
_PLAIN_TEXT: Final = v.text()
_TITLE: Final = v.text(MAX_TITLE_CHARS)
_GROUP: Final = v.text(MAX_GROUP_CHARS)


def comma_list(value: object, notes: v.RepairNotes) -> tuple[str, ...]:
    """Return the keys of a text with commas, where that is the format's own way; also of a list."""
    return v.split_keys(value) if isinstance(value, str) else v.keys(value, notes)


def conflict_key(group: str) -> str | None:
    """Return the conflict key of a group; None where a text names none, or several."""
    key = f"group:{group}"
    return key if group_of(key) else None


class Members:
    """Reads the members of one entry, and makes the entry of ours.

    A member is named by its path, steps joined by "/". Where several names are given the first
    that holds a value counts; null is none.
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
        """Return a reader of an object inside the entry, at a path, whose repairs are ours too."""
        at = f"{self._at}/{at}"
        return Members(raw, self._steps, at=at, notes=self._notes, known=self._known)

    def know(self, *names: str) -> None:
        """Say that members are taken care of, though `read` is not asked for them."""
        self._known.update(f"{self._at}/{name}"[1:] for name in names)

    def read(self, reader: v.Reader, default: object, *names: str) -> Any:  # noqa: ANN401  a foreign value
        """Return a member's value; the default where there is none or where it doesn't fit."""
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
                    "wrong_type", f"{v.shown(value)} can't stand here; the default counts."
                )
                return default
        return default

    def content(self, *names: str) -> str:
        """Return a text; one too long is kept, as the model refuses it."""
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

    def keys(self, *names: str, reader: v.Reader = v.keys) -> tuple[str, ...]:
        """Return keys, at most as many as an entry can have: real files hold over a thousand."""
        found: tuple[str, ...] = self.read(reader, (), *names)
        if len(found) > MAX_KEYS:
            many = "or more " if len(found) == v.MAX_ITEMS else ""
            message = (
                f"{len(found)} {many}keys: the first {MAX_KEYS} count, the rest stay in source.raw."
            )
            self.note("keys_cut", message)
        return found[:MAX_KEYS]

    def note_patterns(self, keys: Iterable[str]) -> None:
        """Note that patterns of AI Dungeon's scripts are plain text: "Oda|(|the )pilot#[t=5]"."""
        if any("|" in key or "#[" in key for key in keys):
            message = "A script's pattern (EWIJSON) is plain text here: only itself matches."
            self.note("pattern_as_text", message)

    def group(self, *names: str) -> tuple[str | None, str]:
        """Return the conflict key of a group, and the groups that it can't say, as a text."""
        group: str = self.read(_GROUP, "", *names)
        key = conflict_key(group)
        return key, "" if key else group

    def note(self, code: str, message: str, name: str | None = None) -> None:
        """Note a repair at a member, "" is the whole; without a name at the one read last."""
        if name is not None:
            self._notes.at = f"{self._at}/{name}" if name else self._at
        self._notes.add(code, message)

    def note_lost(self, usual: Mapping[str, Container[object]]) -> None:
        """Note in one sentence which members hold anything but their usual values.

        Args:
            usual: by name, the values that mean nothing.
        """
        found = {name: member(self.raw, name) for name in usual}
        lost = [
            name
            for name, value in found.items()
            if not (value is LACKING or value is None or value in usual[name])
        ]
        self.know(*(usual.keys() - set(lost)))
        if lost:
            message = f"{', '.join(lost)}: has no place here; kept in source.raw alone."
            self.note("not_kept", message, lost[0])

    def made(
        self,
        entry_id: str,
        source_format: str,
        fields: Mapping[str, Any],
        needs: Mapping[str, str] | None = None,
    ) -> ImportedEntry:
        """Return the entry of ours; what `fields` leave open has the defaults of world info.

        Args:
            entry_id: the entry's id.
            source_format: names the file's format in `source`.
            fields: of Entry; `title` and `content` have to be among them.
            needs: `runtime_requirements` that members ask for, beside those that texts show,
                each with the member's name.
        """
        asked = [DynamicSign(word, f"/{name}") for word, name in (needs or {}).items()]
        texts = tuple(texts_of(self.raw, self._steps))
        signs = (*asked, *find_signs(fields["content"], fields["title"], texts, self._steps))
        requirements = in_table_order(sign.requirement for sign in signs)
        entry = {
            "id": entry_id,
            "order": USUAL_ORDER,
            "exclude_recursion": False,
            "prevent_recursion": False,
            **fields,
            "kind": kind_of(requirements),
            "runtime_requirements": requirements,
            "source": {"format": source_format, "raw": self.raw},
        }
        return ImportedEntry(
            entry=entry,
            texts=texts,
            signs=signs,
            repairs=tuple(self._notes.repairs),
            unread=find_unread(self.raw, with_parents(self._known), self._steps),
        )
