"""Errors that name the file at fault."""

from __future__ import annotations

from typing import TypeVar

from lorewell.errors import InvalidInputError

MAX_NAMED_FAULTS = 10  # in the message; `faults` lists up to 100

Error = TypeVar("Error", bound=InvalidInputError)


def naming(error: Error, what: str, **details: object) -> Error:
    """Return the error with `what` in front of its message, and with additional details.

    Class, faults and details stay.

    >>> from lorewell.errors import Fault, ValidationFailedError
    >>> error = ValidationFailedError.at(Fault("/name", "must not be blank"))
    >>> str(naming(error, "harbour.json is not a valid book"))
    'harbour.json is not a valid book (at /name: must not be blank)'
    """
    places = [f"at {fault.pointer or '/'}: {fault.detail}" for fault in error.faults]
    named = places[:MAX_NAMED_FAULTS]
    if len(places) > len(named):
        named.append(f"and {error.fault_count - len(named):,} more")
    sentence = f"{what} ({'; '.join(named)})" if named else f"{what}: {error}"
    return type(error)(sentence, faults=error.faults, **{**error.details, **details})
