"""The error tree: one class per code. Codes are stable, sentences are not.

Source: docs/rules/native.md §7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple, Self

MAX_FAULTS: Final = 100
"""Faults that an error lists."""
MAX_COUNTED: Final = 100_000
"""From here on the number of faults is a lower bound."""
_MAX_POINTER_CHARS: Final = 300
_MAX_DETAIL_CHARS: Final = 500


class Fault(NamedTuple):
    """One fault in an input.

    Attributes:
        pointer: JSON pointer (RFC 6901) from the root of the document; empty for the root itself.
        detail: what is wrong there, or what must hold.
        parameter: the query parameter, header or setting at fault, if it is not in a document.
    """

    pointer: str
    detail: str
    parameter: str | None = None

    def shortened(self) -> Fault:
        """Return the fault with long texts cut off: they may quote any document."""
        parameter = self.parameter
        return Fault(
            shorten(self.pointer, _MAX_POINTER_CHARS),
            shorten(self.detail, _MAX_DETAIL_CHARS),
            None if parameter is None else shorten(parameter, _MAX_POINTER_CHARS),
        )


def shorten(text: str, max_chars: int) -> str:
    """Return the text, cut to `max_chars` characters; a text that was cut ends with an ellipsis.

    >>> shorten("harbour", 7), shorten("harbour", 4)
    ('harbour', 'har…')
    """
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def describe(faults: tuple[Fault, ...]) -> str:
    """Return the faults as one sentence.

    >>> describe((Fault("", "must be a list"), Fault("/name", "must be given")))
    '/: must be a list; /name: must be given'
    """
    return "; ".join(
        f"{fault.parameter or fault.pointer or '/'}: {fault.detail}" for fault in faults
    )


class LorewellError(Exception):
    """Base of everything Lorewell raises on purpose.

    Attributes:
        code: the stable, machine-readable name of this kind of failure.
        details: JSON-safe facts about this failure.
        faults: the faults of an input, in its order. Of more than 100 only the first 100 are
            listed, followed by one that counts the rest; `details` then hold the number of all as
            `fault_count`.
        request_id: the id under which the service logged the request, for errors of a service.
    """

    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, faults: tuple[Fault, ...] = (), **details: object) -> None:
        super().__init__(message)
        self.faults = tuple(fault.shortened() for fault in faults)
        self.details = details
        self.request_id: str | None = None

    @property
    def fault_count(self) -> int:
        """The number of faults, listed or not."""
        count = self.details.get("fault_count")
        return count if isinstance(count, int) else len(self.faults)


class InvalidInputError(LorewellError):
    """The input can't be used."""

    @classmethod
    def at(cls, *faults: Fault, more: int = 0, **details: object) -> Self:
        """Return an error for one or several faults; its message describes them.

        Args:
            faults: the first 100 are listed, the rest counted.
            more: the number of further faults; 100,000 and above are a lower bound.
            details: JSON-safe facts for the error's `details`.

        >>> str(ValidationFailedError.at(Fault("/name", "must be given")))
        '/name: must be given'
        >>> str(ValidationFailedError.at(Fault("/name", "must be given"), more=41_233))
        '/name: must be given; and 41,233 more'
        """
        kept = tuple(fault.shortened() for fault in faults[:MAX_FAULTS])
        more += len(faults) - len(kept)
        if not more:
            return cls(describe(kept), faults=kept, **details)
        rest = f"and {'at least ' if more >= MAX_COUNTED else ''}{more:,} more"
        listed = (*kept, Fault("", rest))
        details["fault_count"] = len(kept) + more
        return cls(f"{describe(kept)}; {rest}", faults=listed, **details)

    def moved(self, place: Callable[[Fault], Fault]) -> Self:
        """Return an error of this class with each listed fault replaced by `place` of it.

        The number of faults stays.

        >>> error = ValidationFailedError.at(Fault("/name", "must be given"), more=2)
        >>> str(error.moved(lambda fault: fault._replace(pointer="/book" + fault.pointer)))
        '/book/name: must be given; and 2 more'
        """
        # The last fault may only count the rest.
        listed = self.faults[:-1] if "fault_count" in self.details else self.faults
        return self.at(*map(place, listed), more=self.fault_count - len(listed))


class MalformedJsonError(InvalidInputError):
    """The text is not valid JSON."""

    code = "malformed_json"


class MalformedMultipartError(InvalidInputError):
    """The body is not a valid multipart form."""

    code = "malformed_multipart"


class ValidationFailedError(InvalidInputError):
    """The input breaks its schema. The first 100 faults are listed, the rest counted."""

    code = "validation_error"


class InvalidDependencyError(InvalidInputError):
    """`requires` names a missing entry or the entry itself, or forms a cycle."""

    code = "invalid_dependency"


class ImportInvalidError(InvalidInputError):
    """The file has a known format, but is damaged or holds no book."""

    code = "import_invalid"


class UnsupportedMediaTypeError(ImportInvalidError):
    """The format of the file is not supported."""

    code = "unsupported_media_type"


class SnapshotTooLargeError(InvalidInputError):
    """The requested books together exceed the limit of entries or characters."""

    code = "snapshot_too_large"


class TooExpensiveError(InvalidInputError):
    """The request needs more work than the limit allows; `details` hold the kind of work."""

    code = "too_expensive"


class SelectionError(InvalidInputError):
    """A required entry can't be selected, so none is; `details` hold it and the decisions."""


class RequiredPlacementUnsupportedError(SelectionError):
    """A required entry needs a position that the host does not offer."""

    code = "required_placement_unsupported"


class RequiredDependencyUnavailableError(SelectionError):
    """A required entry depends on an entry that can't be selected."""

    code = "required_dependency_unavailable"


class RequiredConflictError(SelectionError):
    """A required entry or one of its dependencies loses a conflict key to another entry."""

    code = "required_conflict"


class BudgetExceededError(SelectionError):
    """A required entry with its dependencies exceeds the token budget or the entry limit."""

    code = "budget_exceeded"


class PlacementFailedError(InvalidInputError):
    """The prompt has no place for a block's position; `details` hold the block and position."""

    code = "worldbook.placement_failed"


class ContextOverflowError(InvalidInputError):
    """The whole prompt exceeds the context window; `details` hold the token counts."""

    code = "agent.context_overflow"


class IdentityMissingError(InvalidInputError):
    """The turn has no user id, conversation id or prompt id."""

    code = "worldbook.identity_missing"


class UnauthenticatedError(LorewellError):
    """The API key is missing, unknown or revoked."""

    code = "unauthenticated"


class ForbiddenError(LorewellError):
    """The API key lacks this tenant or scope, or the request's origin is not allowed."""

    code = "forbidden"


class NotFoundError(LorewellError):
    """The requested resource does not exist."""

    code = "not_found"


class GatewayOffError(NotFoundError):
    """The gateway of this service is turned off."""

    code = "gateway_off"


class LiveOffError(NotFoundError):
    """The live channel of this service is turned off."""

    code = "live_off"


class MethodNotAllowedError(LorewellError):
    """The route does not support this method."""

    code = "method_not_allowed"


class MisdirectedRequestError(LorewellError):
    """The `Host` header names a host that this service does not serve."""

    code = "misdirected_request"


class BookNotFoundError(NotFoundError):
    """The book does not exist."""

    code = "book_not_found"


class RevisionNotFoundError(NotFoundError):
    """The book exists, but not in this revision."""

    code = "revision_not_found"


class ConflictError(LorewellError):
    """The request conflicts with the current state."""


class RevisionConflictError(ConflictError):
    """`expected_revision` is not the book's latest revision; `details` hold both."""

    code = "revision_conflict"


class IdempotencyConflictError(ConflictError):
    """The idempotency key was already used for a different request."""

    code = "idempotency_conflict"


class NameTakenError(ConflictError):
    """A book or an entry with this name already exists."""

    code = "name_taken"


class BookBoundError(ConflictError):
    """An enabled binding uses the book."""

    code = "book_bound"


class BindingInvalidError(ConflictError):
    """An enabled binding names a deleted book or a missing revision; `details` list them."""

    code = "binding_invalid"


class PolicyMismatchError(ConflictError):
    """The prompt's books use a different policy; `details` name it."""

    code = "policy_mismatch"


class ConversationMismatchError(ConflictError):
    """The conversation belongs to a different prompt; `details` name it."""

    code = "worldbook.conversation_mismatch"


class VectorDisabledError(ConflictError):
    """Vector search is turned off."""

    code = "vector_disabled"


class IndexBusyError(ConflictError):
    """The index of this revision is being built."""

    code = "index_busy"


class IndexNotReadyError(ConflictError):
    """A revision has no index for the current embedding model; `details` list the revisions."""

    code = "index_not_ready"


class LimitError(LorewellError):
    """A size limit was exceeded."""


class FileTooLargeError(LimitError):
    """The file exceeds the size limit."""

    code = "file_too_large"


class BodyTooLargeError(LimitError):
    """The body of the request exceeds the size limit."""

    code = "body_too_large"


class BatchTooLargeError(LimitError):
    """The files of the request together exceed the size limit."""

    code = "batch_too_large"


class JsonTooLargeError(LimitError):
    """A JSON document holds more values than the limit allows."""

    code = "json_too_large"


class UnavailableError(LorewellError):
    """A service or resource is unavailable now; the same call may succeed later."""


class StorageUnavailableError(UnavailableError):
    """The database is unreachable or failed. A write may have been committed nevertheless."""

    code = "storage_unavailable"


class EmbeddingUnavailableError(UnavailableError):
    """The embedder returned no usable vectors; the message says why."""

    code = "embedding_unavailable"


class ServiceUnreachableError(UnavailableError):
    """The service did not answer. It may have carried out the request nevertheless."""

    code = "service_unreachable"


class RequestTimeoutError(UnavailableError):
    """The body of the request did not arrive in time."""

    code = "request_timeout"


class TooManySocketsError(UnavailableError):
    """The process or the tenant has reached its limit of open sockets and streams."""

    code = "too_many_sockets"


class OverloadedError(UnavailableError):
    """The service is too busy, or the work exceeded its time limit; retry later."""

    code = "overloaded"


class WorldbookUnavailableError(UnavailableError):
    """The worldbook service gave the turn no usable answer; the turn stops without its lore."""

    code = "worldbook.service_unavailable"


class UpstreamError(UnavailableError):
    """The model server gave no usable reply."""


class UpstreamUnavailableError(UpstreamError):
    """The model server is unreachable, closed the connection, or can't answer now."""

    code = "upstream_unavailable"


class UpstreamTimeoutError(UpstreamUnavailableError):
    """The model server took too long to answer."""

    code = "upstream_timeout"


class UpstreamRefusedError(UpstreamError):
    """The model server refused the request, its key or its model; `details` hold the status."""

    code = "upstream_refused"


class UpstreamInvalidError(UpstreamError):
    """The model server's reply is too large, empty, malformed or of an unaccepted type."""

    code = "upstream_invalid"
