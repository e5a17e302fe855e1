"""What a database's failure means to the caller."""

from __future__ import annotations

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

from lorewell.errors import LorewellError, StorageUnavailableError


def translate(error: Exception) -> LorewellError:
    """Return our error for a driver's: the database is out of order, or it refused a value."""
    refused = isinstance(error, (IntegrityError, DataError)) or (
        isinstance(error, StatementError) and not isinstance(error, DBAPIError)
    )
    if refused:
        return LorewellError("The database refused a row.", reason=_reason(error))
    return StorageUnavailableError("The database can't do its work now.", reason=_reason(error))


def _reason(error: Exception) -> str:
    """Return a word for logs, such as `SQLITE_FULL` or an SQLSTATE; never a value."""
    origin = error.orig if isinstance(error, StatementError) and error.orig else error
    for name in ("sqlite_errorname", "sqlstate"):
        word = getattr(origin, name, None)
        if word:
            return str(word)
    return type(origin).__name__
