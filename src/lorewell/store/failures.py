"""Translation of database failures into errors of Lorewell."""

from __future__ import annotations

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

from lorewell.errors import LorewellError, StorageUnavailableError


def translate(error: Exception) -> LorewellError:
    """Return the LorewellError for a driver's error: database unavailable, or row rejected."""
    refused = isinstance(error, (IntegrityError, DataError)) or (
        isinstance(error, StatementError) and not isinstance(error, DBAPIError)
    )
    if refused:
        return LorewellError("The database rejected a row.", reason=_reason(error))
    return StorageUnavailableError("The database is unavailable.", reason=_reason(error))


def _reason(error: Exception) -> str:
    """Return a code for logs, such as `SQLITE_FULL` or an SQLSTATE; never stored data."""
    origin = error.orig if isinstance(error, StatementError) and error.orig else error
    for name in ("sqlite_errorname", "sqlstate"):
        word = getattr(origin, name, None)
        if word:
            return str(word)
    return type(origin).__name__
