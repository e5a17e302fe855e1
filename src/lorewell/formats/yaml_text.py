"""Parses YAML that JSON could express: no anchors, no tags, no dates.

So a file can't name a class, and can't grow while it is read. Time and depth are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, Protocol

import yaml

from lorewell.engine.steps import Steps
from lorewell.errors import ImportInvalidError
from lorewell.formats.json_text import JsonBuilder, JsonDocument
from lorewell.formats.notes import ImportNotes, cut
from lorewell.model.parse import parse_integer
from lorewell.model.text import MAX_NESTING

MAX_VALUES: Final = 1_000_000  # events cost far more time than their bytes; books hold fewer

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # not every machine has libyaml
_TAG = "tag:yaml.org,2002:"
_TAGS = {  # tags that say what the node is anyway
    yaml.ScalarEvent: f"{_TAG}str",
    yaml.SequenceStartEvent: f"{_TAG}seq",
    yaml.MappingStartEvent: f"{_TAG}map",
}
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
}
# A leading zero makes a text: 010 is 10 for some readers, 8 for others, and may be a name.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]++|(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?)(?:[eE][-+]?[0-9]++)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# libyaml compares each such line with all before it, and none of these tags would be read.
_TAG_LINE = re.compile(r"(?:^|[\n\r\x85\u2028\u2029])%TAG")
_SHOWN_CHARS = 40
_CHARS_A_STEP = 100
_PIECE_CHARS = 16_384


def read_yaml(text: str, notes: ImportNotes) -> JsonDocument:
    r"""Return the document in a YAML text, with the same repairs of values as `read_json`.

    Plain scalars are null, true, false or numbers if YAML's core schema says so; everything else is
    text, also dates, `yes`, `007`, `0x1F` and `12:30`.

    Raises:
        ImportInvalidError: the YAML is invalid, holds several documents, an anchor, an alias, a
            tag, a member's name that is not a text, a number that JSON lacks or that has more than
            4,300 digits, more than 1,000,000 values, or nests deeper than 100.

    Source: docs/rules/formats.md §0.1, §0.4, §0.5.

    >>> read_yaml("keys: [lamp, 灯]\norder: 1\ncontent: |-\n  A\n  lamp.\n", ImportNotes()).value
    {'keys': ['lamp', '灯'], 'order': 1, 'content': 'A\nlamp.'}
    """
    if "%TAG" in text and _TAG_LINE.search(text):
        raise ImportInvalidError("Unsupported YAML: it defines its own tags (%TAG).")
    reader = _Reader(notes.steps)
    try:
        for event in yaml.parse(_Stream(text, notes.steps), Loader=_LOADER):
            reader.read(event)
    except yaml.reader.ReaderError as error:
        sentence = f"Invalid YAML: {error.reason} (U+{error.character:04X})."
        raise ImportInvalidError(sentence) from error
    except yaml.MarkedYAMLError as error:
        where = _where(error.problem_mark)
        raise ImportInvalidError(f"Invalid YAML: {error.problem}{where}.") from error
    except (ValueError, OverflowError) as error:  # escapes beyond Unicode, in PyYAML's own parser
        raise ImportInvalidError(f"Invalid YAML: {error}.") from error
    return JsonDocument(reader.builder.repaired(reader.root, notes), reader.nesting)


class _Stream:
    """Returns the text in pieces: the parser blocks other threads while it reads one."""

    def __init__(self, text: str, steps: Steps) -> None:
        self._text = text
        self._steps = steps
        self._at = 0

    def read(self, size: int = _PIECE_CHARS, /) -> str:
        """Return the next piece, of at most `size` characters."""
        self._steps.spend("bytes", 1 + size // _CHARS_A_STEP)
        start = self._at
        self._at += size
        return self._text[start : self._at]


class _Mark(Protocol):
    """A place in the text; each of the two parsers has its own class."""

    line: int
    column: int


def _where(mark: _Mark | None) -> str:
    return f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""


class _Collection:
    """A list or an object that is being read; in an object names and values alternate."""

    __slots__ = ("is_object", "values")

    def __init__(self, *, is_object: bool) -> None:
        self.is_object = is_object
        self.values: list[Any] = []

    @property
    def awaits_name(self) -> bool:
        return self.is_object and len(self.values) % 2 == 0


class _Reader:
    """Builds the value of one document, `root`, from its events."""

    def __init__(self, steps: Steps) -> None:
        self.builder = JsonBuilder(steps)
        self._steps = steps
        self.root: Any = None
        self.nesting = 0
        self._documents = 0
        self._values = 0
        self._open: list[_Collection] = []

    def read(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.NodeEvent):
            self._check(event)
        match event:
            case yaml.ScalarEvent():
                self._add(self._scalar(event), event)
            case yaml.CollectionStartEvent():
                if self._open and self._open[-1].awaits_name:
                    _refuse("the name of a member must be a text", event)
                is_object = isinstance(event, yaml.MappingStartEvent)
                self._open.append(_Collection(is_object=is_object))
                self.nesting = max(self.nesting, len(self._open))
                if self.nesting > MAX_NESTING:
                    _refuse(f"it nests deeper than {MAX_NESTING} levels", event)
            case yaml.CollectionEndEvent():
                self._add(self._built(self._open.pop()), event)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    _refuse("it holds several documents", event)
            case _:
                pass

    def _check(self, event: yaml.NodeEvent) -> None:
        self._steps.spend("values")
        self._values += 1
        if self._values > MAX_VALUES:
            _refuse(f"it holds more than {MAX_VALUES:,} values", event)
        if event.anchor is not None:
            _refuse("anchors and aliases are not supported", event)
        tag = getattr(event, "tag", None)
        if tag is not None and tag != _TAGS.get(type(event)):
            _refuse(f"the tag {cut(tag, _SHOWN_CHARS)} is not supported", event)

    def _add(self, value: object, event: yaml.Event) -> None:
        if not self._open:
            self.root = value
            return
        collection = self._open[-1]
        if collection.awaits_name and not isinstance(value, str):
            _refuse("the name of a member must be a text; put it in quotes", event)
        collection.values.append(value)

    def _built(self, collection: _Collection) -> object:
        values = collection.values
        if not collection.is_object:
            return values
        return self.builder.build_object(list(zip(values[::2], values[1::2], strict=True)))

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        text = event.value
        if event.implicit[0]:  # neither quoted nor a block
            if text in _WORDS:
                return _WORDS[text]
            if _INTEGER.fullmatch(text):
                return _integer(text, event)
            if _FLOAT.fullmatch(text):
                return self.builder.build_float(text)
            if _NOT_FINITE.fullmatch(text):
                _refuse(f"{text} is not a JSON number", event)
        return self.builder.build_text(text)


def _integer(digits: str, event: yaml.Event) -> int:
    try:
        return parse_integer(digits)
    except ValueError as error:
        _refuse(str(error), event)


def _refuse(why: str, event: yaml.Event) -> NoReturn:
    raise ImportInvalidError(f"Unsupported YAML: {why}{_where(event.start_mark)}.")
