"""What is wrong with a document: the first faults with their places, the rest counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from pydantic import ValidationError, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic_core import PydanticCustomError, PydanticKnownError

from lorewell.errors import MAX_COUNTED, MAX_FAULTS, Fault
from lorewell.model.text import pointer

_UNKNOWN = "there is no such field"

# Pydantic speaks of tuples and items where a person wrote lists and text.
_SENTENCES = {
    "contract": "{detail}",
    "extra_forbidden": _UNKNOWN,
    "missing": "must be given",
    "too_long": "must hold at most {max_length}, holds {actual_length}",
    "too_short": "must hold at least {min_length}, holds {actual_length}",
    "tuple_type": "must be a list",
}

# What pydantic puts into a path that is no step of the document: the mark of a member's name that
# is at fault itself, the tags of model/preview.py, and the labels of model/base.py.
_NO_STEPS = frozenset({"[key]", "[stored]", "[inline]", "[changed]", "[list]", "[dict]"})

_LISTS = (list, tuple)
_SEVERAL = "several"  # an error of pydantic that stands for many faults
_CHUNK = 100  # members of an object validated at once


class Faults(NamedTuple):
    """The first faults of a document, in its order, and how many more there are.

    From 100,000 on the others are not counted: each takes as long as to validate its item.
    """

    listed: tuple[Fault, ...]
    more: int


def faults_of(error: ValidationError) -> Faults:
    """Return the faults of a pydantic error, with pointers from what was validated."""
    return _joined(_read(item, item["loc"]) for item in _items(error))


class Validation(NamedTuple):
    """What is called while a document is validated: the context of pydantic's validators.

    Attributes:
        spend: takes the number of values of free-form JSON that are looked at; it may raise.
        watch: called before each list; it may raise.
    """

    spend: Callable[[int], object]
    watch: Callable[[], None]


def check_items(
    most: int | None, value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> object:
    """Validate a list with a validator that ends at the first item at fault.

    Pydantic keeps every fault of a list, and counts its items last: a list of ten million empty
    objects would fill the memory. So the length counts first, and items are looked at one by one
    only where one is at fault.

    Raises:
        PydanticKnownError: it holds more than `most` items.
        PydanticCustomError: items are at fault; it stands for all of them.
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
        if not found.listed:  # it is too short
            raise
        raise _several(found) from error


def check_members(most: int | None, value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Validate an object with members of one kind, a part of it at a time, as `check_items`."""
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
    """Return the value; if it is an object with very many unknown members, count them and raise.

    Pydantic keeps a fault for each one.

    Raises:
        PydanticCustomError: over 100 members are unknown; it stands for all of them.
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
                if each["loc"]:  # else it says that a list without this item is too short
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
    place = pointer(*(step for step in loc if step not in _NO_STEPS))
    context = item.get("ctx", {})
    if item["type"] == _SEVERAL:
        found: Faults = context["faults"]
        return Faults(
            tuple(each._replace(pointer=place + each.pointer) for each in found.listed), found.more
        )
    template = _SENTENCES.get(item["type"])
    detail = template.format_map(context) if template else item["msg"]
    return Faults((Fault(place + str(context.get("at", "")), detail),), 0)
