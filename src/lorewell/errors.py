"""The error tree. One class a code; codes are stable, texts are not (spec/native.md §7)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple


class Fault(NamedTuple):
    """One fault: where, as a JSON pointer from a document's root, and what is wrong there.

    A fault outside of the document names the query parameter or header instead.
    """

    pointer: str
    detail: str
    parameter: str | None = None


def tell(faults: tuple[Fault, ...]) -> str:
    """Return all faults in one sentence.

    >>> tell((Fault("", "must be a list"), Fault("/name", "must be given")))
    '/: must be a list; /name: must be given'
    """
    return "; ".join(
        f"{fault.parameter or fault.pointer or '/'}: {fault.detail}" for fault in faults
    )


class LorewellError(Exception):
    """Base of everything Lorewell raises on purpose.

    Attributes:
        code: the stable machine-readable word for this kind of failure.
        details: JSON-safe facts about this one failure.
        faults: the places in a document that are at fault, if a document is.
    """

    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, faults: tuple[Fault, ...] = (), **details: object) -> None:
        super().__init__(message)
        self.faults = faults
        self.details = details


class InvalidInputError(LorewellError):
    """What was given can't be used."""


class MalformedJsonError(InvalidInputError):
    """The text is no JSON document."""

    code = "malformed_json"


class ValidationFailedError(InvalidInputError):
    """A document breaks its schema; every fault is listed."""

    code = "validation_error"


class InvalidDependencyError(InvalidInputError):
    """`requires` names a missing entry, the entry itself, or closes a circle."""

    code = "invalid_dependency"


class ImportInvalidError(InvalidInputError):
    """A file of a known kind that is broken or holds no book."""

    code = "import_invalid"


class UnsupportedMediaTypeError(ImportInvalidError):
    """A file of no kind that we know."""

    code = "unsupported_media_type"


class SnapshotTooLargeError(InvalidInputError):
    """The requested books together hold too many entries or too much text."""

    code = "snapshot_too_large"


class SelectionError(InvalidInputError):
    """A required entry can't be placed; nothing was selected. `details` say which entry and why."""


class RequiredPlacementUnsupportedError(SelectionError):
    """A required entry wants a place that the host does not offer."""

    code = "required_placement_unsupported"


class RequiredDependencyUnavailableError(SelectionError):
    """A required entry needs an entry that can't come."""

    code = "required_dependency_unavailable"


class RequiredConflictError(SelectionError):
    """A required entry's package clashes over a conflict key."""

    code = "required_conflict"


class BudgetExceededError(SelectionError):
    """A required entry's package does not fit into the tokens or the number of entries."""

    code = "budget_exceeded"


class NotFoundError(LorewellError):
    """What was asked for does not exist."""


class BookNotFoundError(NotFoundError):
    """No such book."""

    code = "book_not_found"


class RevisionNotFoundError(NotFoundError):
    """The book is there, this revision of it is not."""

    code = "revision_not_found"


class LimitError(LorewellError):
    """Something is larger than its limit."""


class FileTooLargeError(LimitError):
    """The file is larger than the limit for one file."""

    code = "file_too_large"
