"""What the program says and how it ends when something can't be done."""

from __future__ import annotations

from collections.abc import Mapping

from lorewell.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    LimitError,
    LorewellError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from lorewell.formats.json_text import storable

EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (InvalidInputError, 2),
    (UnauthenticatedError, 3),
    (ForbiddenError, 3),
    (NotFoundError, 4),
    (FileNotFoundError, 4),
    (ConflictError, 5),
    (LimitError, 6),
    (UnavailableError, 7),
)
OTHER_EXIT_CODE = 1


def describe(error: LorewellError | OSError) -> str:
    """Return what went wrong, in a sentence."""
    if isinstance(error, OSError) and error.strerror is not None:
        where = "" if error.filename is None else f"{error.filename} can't be read: "
        return where + error.strerror
    return str(error)


def exit_code(error: Exception) -> int:
    """Return the exit code for a kind of error."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), OTHER_EXIT_CODE)


def code_of(error: LorewellError | OSError) -> str | None:
    """Return the stable code of an error; None for what the system refuses."""
    return error.code if isinstance(error, LorewellError) else None


def error_members(error: LorewellError | OSError) -> Mapping[str, object]:
    """Return an error as the JSON of one file among many has it."""
    told = str(error) if isinstance(error, LorewellError) else error.strerror or str(error)
    return {"code": code_of(error), "message": storable(told)}
