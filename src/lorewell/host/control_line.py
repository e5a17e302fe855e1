"""The control line: what a client that cannot add members to a request says in its prompt.

A line such as `[lorewell char="Mara" user="Ann" type="swipe" last="7"]`, read from system and
developer messages alone, so that neither a user nor a reply can write one. It never sets the state,
the tables, the audience, the seed or the identity of a chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn, get_args

from lorewell.errors import Fault, ValidationFailedError
from lorewell.host.draft import SYSTEM_ROLES
from lorewell.model.parse import parse_model
from lorewell.model.scene import Scene, Trigger
from lorewell.model.text import pointer, text_flaw

MAX_LINE_CHARS: Final = 4_000
_MAX_NAME_CHARS: Final = 500
_LINE: Final = re.compile(r"^\[lorewell(?=[ \t\]\r\n]|\Z)[^\n]*(?:\n|\Z)", re.MULTILINE)
_BLANKS: Final = re.compile(r"[ \t]*")
_MEMBER: Final = re.compile(r"([A-Za-z_]+)=")
_BARE: Final = re.compile(r'[^\s"\]]*')
# A quoted value may hold quotes: it ends where the line goes on with a member, or ends.
_CLOSING: Final = re.compile(r'"(?=[ \t]+[A-Za-z_]+=|[ \t]*\][ \t]*\Z)')
_LAST: Final = re.compile(r"[0-9]{1,9}")
_TRIGGERS: Final[tuple[Trigger, ...]] = get_args(Trigger)
_MEMBERS: Final = ("char", "user", "type", "last")


class TextPlace(NamedTuple):
    """The place of a text: the index of its message, and of its part in a list of parts."""

    message: int
    part: int | None = None

    @property
    def pointer(self) -> str:
        """The JSON pointer of the text."""
        steps = () if self.part is None else (self.part, "text")
        return pointer("messages", self.message, "content", *steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlLines:
    """The control lines of a request.

    Attributes:
        scene: what the first line says; None without a line.
        texts: the texts that held a line, without it.
    """

    scene: Scene | None
    texts: Mapping[TextPlace, str]


def read_control_lines(messages: Sequence[Mapping[str, object]]) -> ControlLines:
    r"""Return what the first control line says, and the texts without any.

    Raises:
        ValidationFailedError: the first line is invalid; the fault names its text and the column.

    >>> line = '[lorewell char="Old "Tom" Reed" last=7 user=""]\nYou are Tom.'
    >>> found = read_control_lines([{"role": "system", "content": line}])
    >>> found.scene.char, found.scene.user, found.scene.chat_length, list(found.texts.values())
    ('Old "Tom" Reed', None, 8, ['You are Tom.'])
    """
    scene: Scene | None = None
    texts: dict[TextPlace, str] = {}
    for place, text in _system_texts(messages):
        lines = list(_LINE.finditer(text))
        if not lines:
            continue
        if scene is None:
            scene = _Line(lines[0][0].rstrip("\r\n"), place).read()
        rest = _LINE.sub("", text)
        if lines[-1].end() == len(text) and not text.endswith("\n"):
            rest = rest.removesuffix("\n").removesuffix("\r")  # it has no line break of its own
        texts[place] = rest
    return ControlLines(scene=scene, texts=texts)


def _system_texts(messages: Sequence[Mapping[str, object]]) -> Iterator[tuple[TextPlace, str]]:
    for index, message in enumerate(messages):
        content = message.get("content")
        if message.get("role") not in SYSTEM_ROLES:
            continue
        if isinstance(content, str):
            yield TextPlace(index), content
        for number, part in enumerate(content if isinstance(content, list) else ()):
            text = part.get("text") if isinstance(part, Mapping) else None
            if isinstance(text, str):
                yield TextPlace(index, number), text


@dataclass(slots=True)
class _Line:
    """A control line while it is read; `at` is the next character."""

    text: str
    place: TextPlace
    at: int = len("[lorewell")

    def read(self) -> Scene:
        """Return what the line says."""
        if len(self.text) > MAX_LINE_CHARS:
            self._fail(MAX_LINE_CHARS, f"the line holds more than {MAX_LINE_CHARS} characters")
        values: dict[str, str] = {}
        places: dict[str, int] = {}
        while not self._ends():
            name = self._name(values)
            places[name] = self.at
            values[name] = self._value()
        return self._scene(values, places)

    def _ends(self) -> bool:
        """Go past blanks; return whether the line ends here."""
        before, self.at = self.at, self._past_blanks(self.at)
        if self.text[self.at : self.at + 1] == "]":
            end = self._past_blanks(self.at + 1)
            if end < len(self.text):
                self._fail(end, "expected the end of the line after ]")
            return True
        if self.at == len(self.text):
            self._fail(self.at, "expected ]")
        if self.at == before:
            self._fail(self.at, "expected a blank")
        return False

    def _name(self, known: Mapping[str, str]) -> str:
        found = _MEMBER.match(self.text, self.at)
        if found is None or found[1] not in _MEMBERS:
            self._fail(self.at, f"expected one of {', '.join(f'{each}=' for each in _MEMBERS)}")
        if found[1] in known:
            self._fail(self.at, f"{found[1]} is given twice")
        self.at = found.end()
        return found[1]

    def _value(self) -> str:
        if self.text[self.at : self.at + 1] != '"':
            found = _BARE.match(self.text, self.at)
            value = found[0] if found else ""
            self.at += len(value)
            return value
        end = _CLOSING.search(self.text, self.at + 1)
        if end is None:
            self._fail(self.at, "the quoted value does not end before a member or ]")
        value = self.text[self.at + 1 : end.start()]
        self.at = end.end()
        return value

    def _scene(self, values: Mapping[str, str], places: Mapping[str, int]) -> Scene:
        given = {name: value for name, value in values.items() if value}
        for name in ("char", "user"):
            flaw = _name_flaw(given.get(name, ""))
            if flaw is not None:
                self._fail(places[name], flaw)
        trigger = next((each for each in _TRIGGERS if each == given.get("type")), None)
        if trigger is None and "type" in given:
            self._fail(places["type"], f"type must be one of {', '.join(_TRIGGERS)}")
        last = given.get("last")
        if last is not None and _LAST.fullmatch(last) is None:
            self._fail(places["last"], "last must be the number of a message, from 0")
        names = {name: given[name] for name in ("char", "user") if name in given}
        members: dict[str, object] = {}
        if names:
            members["names"] = names
        if trigger is not None:
            members["trigger"] = trigger
        if last is not None:
            members["chat_length"] = int(last) + 1
        return parse_model(Scene, members)

    def _past_blanks(self, at: int) -> int:
        found = _BLANKS.match(self.text, at)
        return found.end() if found else at

    def _fail(self, at: int, detail: str) -> NoReturn:
        message = f"invalid control line at column {at + 1}: {detail}"
        raise ValidationFailedError.at(Fault(self.place.pointer, message))


def _name_flaw(name: str) -> str | None:
    """Return why a name can't be used, or None."""
    if len(name) > _MAX_NAME_CHARS:
        return f"the name holds more than {_MAX_NAME_CHARS} characters"
    flaw = text_flaw(name)
    return flaw or (None if name.isprintable() else "the name must not hold control characters")
