"""Faults of a document: the first ones by JSON pointer, the rest counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

from pydantic import ValidationError, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic_core import PydanticCustomError, PydanticKnownError

from lorewell.errors import MAX_COUNTED, MAX_FAULTS, Fault, ValidationFailedError
from lorewell.model.text import pointer

_UNKNOWN = "there is no such field"

# Pydantic's messages speak of tuples and items; people wrote lists and text.
_SENTENCES = {
    "contract": "{detail}",
    "extra_forbidden": _UNKNOWN,
    "missing": "must be given",
    "too_long": "must hold at most {max_length}, holds {actual_length}",
    "too_short": "must hold at least {min_length}, holds {actual_length}",
    "tuple_type": "must be a list",
}

# Parts of pydantic's paths that are not steps of the document: the mark of a member's name that
# is itself at fault, the tags of model/preview.py, and the labels of model/base.py.
_LABELS = frozenset({"[key]", "[stored]", "[inline]", "[changed]", "[list]", "[dict]"})

_LISTS = (list, tuple)
_SEVERAL = "several"  # type of a pydantic error that stands for many faults
_CHUNK = 100  # members of an object that are validated at once


@contextmanager
def faults_below(at: str) -> Iterator[None]:
    """Move the faults of a part of a document to the pointer of that part.

    >>> with faults_below("/scene"):
    ...     raise ValidationFailedError.at(Fault("/seed", "must be a text"))
    Traceback (most recent call last):
    lorewell.errors.ValidationFailedError: /scene/seed: must be a text
    """
    try:
        yield
    except ValidationFailedError as error:
        moved = error.moved(lambda fault: fault._replace(pointer=at + fault.pointer))
        raise moved from error


class Faults(NamedTuple):
    """The first faults of a document, in its order, and the number of further ones.

    Attributes:
        listed: the first 100.
        more: the number of further ones. Counting ends soon after 100,000, as it validates each
            item again.
    """

    listed: tuple[Fault, ...]
    more: int


def faults_of(error: ValidationError) -> Faults:
    """Return the faults of a pydantic error, with pointers from the validated value."""
    return _joined(_read(item, item["loc"]) for item in _items(error))


class Validation(NamedTuple):
    """Callbacks of a validation: the context of pydantic's validators.

    Attributes:
        spend: called with the number of values of free-form JSON that are checked; it may raise.
        watch: called before each list; it may raise.
    """

    spend: Callable[[int], object]
    watch: Callable[[], None]


def check_items(
    most: int | None, value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> object:
    """Validate a list with a handler that stops at the first invalid item.

    Pydantic keeps every fault of a list and checks its length last: a list of ten million empty
    objects would fill the memory. So the length is checked first, and items are validated one by
    one only if one is invalid.

    Args:
        most: most items; None for any number.
        value: the list; any other value goes to the handler.
        handler: pydantic's validator.
        info: its context is a `Validation`, or None.

    Raises:
        PydanticKnownError: it holds more than `most` items.
        PydanticCustomError: items are invalid; it stands for all of them.
    """
    if not isinstance(value, _LISTS):
        return handler(value)
    if most is not None and len(value) > most:
        raise _too_long("Tuple", len(value), most)
    if info.context is not None:
        info.context.watch()
    try:
        return handler(value)
    except ValidationError as error:
        found = _joined(_of_items(value, handler))
        if not found.listed:  # the list is too short
            raise
        raise _several(found) from error


def check_members(most: int | None, value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Validate an object with members of one type, in chunks; otherwise as `check_items`."""
    if not isinstance(value, dict) or len(value) <= _CHUNK:
        return handler(value)
    if most is not None and len(value) > most:
        raise _too_long("Dictionary", len(value), most)
    found: dict[Any, Any] = {}
    try:
        for chunk in _chunks(value):
            found |= handler(chunk)
    except ValidationError as error:
        raise _several(_joined(_of_members(value, handler))) from error
    return found


def check_names(known: frozenset[str], value: object) -> object:
    """Return the value, unless it is an object with more than 100 unknown members.

    Pydantic would keep a fault for each of them.

    Raises:
        PydanticCustomError: the members are unknown; it stands for all of them.
    """
    if not isinstance(value, dict) or len(value) <= len(known) + MAX_FAULTS:
        return value
    unknown = (name for name in value if name not in known)
    listed = tuple(Fault(pointer(name), _UNKNOWN) for name in islice(unknown, MAX_FAULTS))
    raise _several(Faults(listed, sum(1 for _ in unknown)))


def _too_long(kind: str, length: int, most: int) -> PydanticKnownError:
    context = {"field_type": kind, "max_length": most, "actual_length": length}
    return PydanticKnownError("too_long", context)


def _of_items(value: Sequence[object], handler: ValidatorFunctionWrapHandler) -> Iterator[Faults]:
    for index, item in enumerate(value):
        try:
            handler([item])
        except ValidationError as error:
            for each in _items(error):
                if each["loc"]:  # without a path, the list of this one item is too short
                    yield _read(each, (index, *each["loc"][1:]))


def _of_members(
    value: Mapping[Any, object], handler: ValidatorFunctionWrapHandler
) -> Iterator[Faults]:
    for chunk in _chunks(value):
        try:
            handler(chunk)
        except ValidationError as error:
            yield faults_of(error)


def _chunks(value: Mapping[Any, object]) -> Iterator[dict[Any, object]]:
    members = iter(value.items())
    while chunk := dict(islice(members, _CHUNK)):
        yield chunk


def _several(found: Faults) -> PydanticCustomError:
    return PydanticCustomError(_SEVERAL, "several faults", {"faults": found})


def _joined(parts: Iterable[Faults]) -> Faults:
    listed: list[Fault] = []
    more = 0
    for part in parts:
        room = MAX_FAULTS - len(listed)
        listed += part.listed[:room]
        more += part.more + len(part.listed[room:])
        if more >= MAX_COUNTED:
            break
    return Faults(tuple(listed), more)


def _items(error: ValidationError) -> list[Any]:
    return list(error.errors(include_url=False, include_input=False))


def _read(item: Any, loc: Sequence[str | int]) -> Faults:  # noqa: ANN401  pydantic's own
    place = pointer(*(step for step in loc if step not in _LABELS))
    context = item.get("ctx", {})
    if item["type"] == _SEVERAL:
        found: Faults = context["faults"]
        return Faults(
            tuple(each._replace(pointer=place + each.pointer) for each in found.listed), found.more
        )
    template = _SENTENCES.get(item["type"])
    detail = template.format_map(context) if template else item["msg"]
    return Faults((Fault(place + str(context.get("at", "")), detail),), 0)
