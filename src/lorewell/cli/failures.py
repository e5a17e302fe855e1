"""Error messages and exit codes of the program."""

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
    """Return the error's sentence; for an OSError the file and the system's message."""
    if isinstance(error, OSError) and error.strerror is not None:
        where = "" if error.filename is None else f"{error.filename} can't be read: "
        return where + error.strerror
    return str(error)


def exit_code(error: Exception) -> int:
    """Return the exit code of an error; 1 for a class that `EXIT_CODES` lacks."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), OTHER_EXIT_CODE)


def code_of(error: LorewellError | OSError) -> str | None:
    """Return the stable code of an error; None for an OSError."""
    return error.code if isinstance(error, LorewellError) else None


def error_members(error: LorewellError | OSError) -> Mapping[str, object]:
    """Return the `error` members of one file in the JSON of a batch."""
    message = str(error) if isinstance(error, LorewellError) else error.strerror or str(error)
    return {"code": code_of(error), "message": storable(message)}
