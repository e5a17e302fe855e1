"""The body of a chat completion: a parser of the members that lore needs, and a writer.

The writer replaces only changed members. All other text stays byte for byte, even numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lorewell.errors import Fault, MalformedJsonError, ValidationFailedError
from lorewell.model.parse import Member, decode, parse_elements, parse_members
from lorewell.model.structure import MAX_VALUES
from lorewell.model.text import pointer

# JSON can only write these as escapes; no searched text may hold them.
_UNFIT = re.compile("[\x00\ud800-\udfff]")
_INSTEAD = "\ufffd"
_READ_ONCE = ("messages", "model", "user")


@dataclass(frozen=True, slots=True)
class Completion:
    """The body of a request, as text and as members."""

    text: str
    members: Mapping[str, Member]

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
        for member in parse_members(text, max_values=max_values):
            if member.name in members and member.name in _READ_ONCE:
                # The model server may read the other one.
                raise MalformedJsonError(f"The JSON holds {member.name!r} twice.")
            members[member.name] = member
        _check(members.get("messages"))
        return cls(text, members)

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages, with U+FFFD for characters that no text may hold."""
        messages = self.members["messages"].value
        return [_cleaned(each) for each in messages] if "\\u" in self.text else messages

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
        self, messages: Sequence[int | Mapping[str, object]] | None, model: str | None
    ) -> bytes:
        """Return the body with other messages and another model.

        Args:
            messages: a number stands for that message of the body, unchanged; None keeps all.
            model: the new model; None keeps it.
        """
        changes: list[tuple[tuple[int, int], str]] = []
        if messages is not None:
            changes.append((self.members["messages"].span, self._written(messages)))
        if model is not None and "model" in self.members:
            changes.append((self.members["model"].span, json.dumps(model, ensure_ascii=False)))
        text = self.text
        for (begin, end), written in sorted(changes, reverse=True):
            text = text[:begin] + written + text[end:]
        if model is not None and "model" not in self.members:
            begin = text.index("{") + 1
            text = f'{text[:begin]}"model":{json.dumps(model, ensure_ascii=False)},{text[begin:]}'
        return text.encode()

    def _written(self, messages: Sequence[int | Mapping[str, object]]) -> str:
        begin, end = self.members["messages"].span
        given = self.text[begin:end]
        spans = parse_elements(given)
        written = (
            given[slice(*spans[each])]
            if isinstance(each, int)
            else json.dumps(each, ensure_ascii=False, separators=(",", ":"))
            for each in messages
        )
        return f"[{','.join(written)}]"


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
