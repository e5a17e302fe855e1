"""Saying which document the faults are in."""

from __future__ import annotations

from typing import TypeVar

from lorewell.errors import InvalidInputError

MAX_NAMED_FAULTS = 10  # in the sentence; `faults` has all

Error = TypeVar("Error", bound=InvalidInputError)


def naming(error: Error, what: str, **details: object) -> Error:
    """Return an error of the same class and faults whose sentence says what is at fault, and where.

    >>> from lorewell.errors import Fault, ValidationFailedError
    >>> error = ValidationFailedError("bad", faults=(Fault("/name", "must not be blank"),))
    >>> str(naming(error, "harbour.json is no valid book"))
    'harbour.json is no valid book (at /name: must not be blank)'
    """
    places = [f"at {fault.pointer or '/'}: {fault.detail}" for fault in error.faults]
    named = places[:MAX_NAMED_FAULTS]
    if len(places) > len(named):
        named.append(f"and {error.fault_count - len(named):,} more")
    sentence = f"{what} ({'; '.join(named)})" if named else f"{what}: {error}"
    return type(error)(sentence, faults=error.faults, **{**error.details, **details})
