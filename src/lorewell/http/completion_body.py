"""The body of a chat completion: a parser of the members that lore needs, and a writer.

The writer replaces only changed members. All other text stays byte for byte, even numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lorewell.app.gateway.scenes import MEMBER
from lorewell.errors import Fault, MalformedJsonError, ValidationFailedError
from lorewell.host.control_line import ControlLines, read_control_lines
from lorewell.model.faults import faults_below
from lorewell.model.parse import Member, decode, parse_elements, parse_members, parse_model
from lorewell.model.scene import Scene
from lorewell.model.structure import MAX_VALUES
from lorewell.model.text import is_blank, pointer

# JSON can only write these as escapes; no searched text may hold them.
_UNFIT = re.compile("[\x00\ud800-\udfff]")
_INSTEAD = "\ufffd"
_READ_ONCE = ("messages", "model", "user", MEMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMessages:
    """The messages of a request without control lines, and what these say.

    Attributes:
        messages: with U+FFFD for characters that no text may hold; a message of a control line
            alone is left out.
        sources: for each of them its index in the body, or its new JSON if it held a control line.
        control: what the first control line says; None without one.
    """

    messages: Sequence[dict[str, Any]]
    sources: Sequence[int | str]
    control: Scene | None

    @property
    def changed(self) -> bool:
        """Whether any message held a control line."""
        return self.control is not None

    def written(
        self, messages: Sequence[int | Mapping[str, object]] | None
    ) -> Sequence[int | str | Mapping[str, object]] | None:
        """Return messages for `Completion.write`; numbers stand for those of this request.

        None stands for all of them.
        """
        if messages is None:
            return self.sources if self.changed else None
        return [self.sources[each] if isinstance(each, int) else each for each in messages]


@dataclass(frozen=True, slots=True)
class Completion:
    """The body of a request, as text and as members.

    Attributes:
        scene_span: the member `lorewell` with its name and one comma; None without it.
    """

    text: str
    members: Mapping[str, Member]
    scene_span: tuple[int, int] | None = None

    @classmethod
    def parse(cls, body: bytes, *, max_values: int = MAX_VALUES) -> Completion:
        """Parse a body of at most `max_values` values and names.

        Raises:
            JsonTooLargeError: the body holds more.
            MalformedJsonError: the JSON is invalid, or holds a member twice that we read.
            ValidationFailedError: the body is not an object, or its `messages` are not a list of
                objects with a role.
        """
        text = decode(body)
        members: dict[str, Member] = {}
        scene_span, end = None, 0
        for member in parse_members(text, max_values=max_values):
            if member.name in members and member.name in _READ_ONCE:
                # The model server may read the other one.
                raise MalformedJsonError(f"The JSON holds {member.name!r} twice.")
            if member.name == MEMBER:
                scene_span = _whole_member(text, end, member)
            members[member.name] = member
            end = member.span[1]
        _check(members.get("messages"))
        return cls(text, members, scene_span)

    def read_messages(self) -> ClientMessages:
        """Return the messages without control lines.

        Raises:
            ValidationFailedError: the first control line is invalid.
            MalformedJsonError: a message with a control line holds a member twice.
        """
        given = self.members["messages"].value
        lines = read_control_lines(given)
        kept = self._without_lines(given, lines) if lines.texts else list(enumerate(given))
        messages = [message for _, message in kept]
        return ClientMessages(
            messages=[_cleaned(each) for each in messages] if "\\u" in self.text else messages,
            sources=[source for source, _ in kept],
            control=lines.scene,
        )

    def _without_lines(
        self, given: Sequence[dict[str, Any]], lines: ControlLines
    ) -> list[tuple[int | str, dict[str, Any]]]:
        """Return source and value of each message; those that are empty now are left out."""
        listed = self.text[slice(*self.members["messages"].span)]
        spans = parse_elements(listed)
        changed: dict[int, dict[int | None, str]] = {}
        for place, text in lines.texts.items():
            changed.setdefault(place.message, {})[place.part] = text
        kept: list[tuple[int | str, dict[str, Any]]] = []
        for index, message in enumerate(given):
            texts = changed.get(index)
            if texts is None:
                kept.append((index, message))
                continue
            written = _with_content(listed[slice(*spans[index])], message["content"], texts)
            content = _new_content(message["content"], texts)
            if content is not None:
                kept.append((written, {**message, "content": content}))
        return kept

    def read_scene(self) -> Scene | None:
        """Return the member `lorewell`; None if it is missing or null.

        Raises:
            ValidationFailedError: it is not a scene; the fault names the member.
        """
        value = self._value(MEMBER)
        with faults_below(pointer(MEMBER)):
            return None if value is None else parse_model(Scene, value)

    def find_text(self, name: str) -> str | None:
        """Return a member if it is a non-empty, valid text."""
        value = self._value(name)
        return value if isinstance(value, str) and value and not _UNFIT.search(value) else None

    def find_count(self, *names: str) -> int | None:
        """Return the first of these members that is a non-negative integer."""
        values = (self._value(name) for name in names)
        return next((each for each in values if type(each) is int and each >= 0), None)

    def find_objects(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return the objects of a member that is a list."""
        value = self._value(name)
        found = value if isinstance(value, list) else []
        return [_cleaned(each) for each in found if isinstance(each, dict)]

    def _value(self, name: str) -> object:
        member = self.members.get(name)
        return None if member is None else member.value

    def write(
        self, messages: Sequence[int | str | Mapping[str, object]] | None, model: str | None
    ) -> bytes:
        """Return the body with other messages and another model, and without `lorewell`.

        Args:
            messages: a number stands for that message of the body, unchanged, a text is the JSON of
                a message; None keeps all.
            model: the new model; None keeps it.
        """
        changes: list[tuple[tuple[int, int], str]] = []
        if messages is not None:
            changes.append((self.members["messages"].span, self._written(messages)))
        if model is not None and "model" in self.members:
            changes.append((self.members["model"].span, json.dumps(model, ensure_ascii=False)))
        if self.scene_span is not None:
            changes.append((self.scene_span, ""))
        text = self.text
        for (begin, end), written in sorted(changes, reverse=True):
            text = text[:begin] + written + text[end:]
        if model is not None and "model" not in self.members:
            begin = text.index("{") + 1
            text = f'{text[:begin]}"model":{json.dumps(model, ensure_ascii=False)},{text[begin:]}'
        return text.encode()

    def _written(self, messages: Sequence[int | str | Mapping[str, object]]) -> str:
        given = self.text[slice(*self.members["messages"].span)]
        spans = parse_elements(given)

        def written(message: int | str | Mapping[str, object]) -> str:
            if isinstance(message, int):
                return given[slice(*spans[message])]
            if isinstance(message, str):
                return message
            return json.dumps(message, ensure_ascii=False, separators=(",", ":"))

        return f"[{','.join(map(written, messages))}]"


def _whole_member(text: str, end: int, member: Member) -> tuple[int, int]:
    """Return the span of a member with its name and one comma.

    Args:
        text: the JSON of the object.
        end: where the value of the member before it ends; 0 if it is the first.
        member: the member.
    """
    after = member.span[1]
    if end:
        return end, after
    following = text.find('"', after)  # of the next name
    return text.index('"'), after if following < 0 else following


def _new_content(content: object, texts: Mapping[int | None, str]) -> object:
    """Return the content of a message with new texts; None if nothing is left."""
    if not isinstance(content, list):
        return None if is_blank(texts[None]) else texts[None]
    parts = [
        {**part, "text": texts[number]} if number in texts else part
        for number, part in enumerate(content)
        if number not in texts or not is_blank(texts[number])
    ]
    return parts or None


def _with_content(written: str, content: object, texts: Mapping[int | None, str]) -> str:
    """Return the JSON of a message with new texts; all else stays the same text."""
    begin, end = _only(written, "content")
    if not isinstance(content, list):
        return written[:begin] + _dumped(texts[None]) + written[end:]
    given = written[begin:end]
    parts = []
    for number, span in enumerate(parse_elements(given)):
        part = given[slice(*span)]
        if number not in texts:
            parts.append(part)
        elif not is_blank(texts[number]):
            first, last = _only(part, "text")
            parts.append(part[:first] + _dumped(texts[number]) + part[last:])
    return f"{written[:begin]}[{','.join(parts)}]{written[end:]}"


def _only(written: str, name: str) -> tuple[int, int]:
    """Return the span of the value of a member that the JSON of an object must hold once."""
    spans = [member.span for member in parse_members(written) if member.name == name]
    if len(spans) != 1:
        raise MalformedJsonError(f"The JSON of a message holds {name!r} twice.")
    return spans[0]


def _dumped(text: str) -> str:
    return json.dumps(text, ensure_ascii=_UNFIT.search(text) is not None)


def _check(messages: Member | None) -> None:
    if messages is None or not isinstance(messages.value, list):
        raise ValidationFailedError.at(Fault(pointer("messages"), "must be a list of messages"))
    for index, message in enumerate(messages.value):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str):
            at = pointer("messages", index)
            raise ValidationFailedError.at(Fault(at, "must be an object with a role"))


def _cleaned(value: Any) -> Any:  # noqa: ANN401  JSON
    if isinstance(value, str):
        return _UNFIT.sub(_INSTEAD, value)
    if isinstance(value, dict):
        return {_cleaned(name): _cleaned(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    return value
