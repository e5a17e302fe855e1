"""The error tree. One class a code; codes are stable, texts are not (docs/rules/native.md §7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple, Self

MAX_FAULTS: Final = 100
MAX_COUNTED: Final = 100_000
_MAX_POINTER_CHARS: Final = 300
_MAX_DETAIL_CHARS: Final = 500


class Fault(NamedTuple):
    """One fault: where, as a JSON pointer from a document's root, and what is wrong there.

    A fault outside of the document names the query parameter or header instead.
    """

    pointer: str
    detail: str
    parameter: str | None = None

    def shortened(self) -> Fault:
        """Return the fault with what a foreign document makes long cut off."""
        parameter = self.parameter
        return Fault(
            shorten(self.pointer, _MAX_POINTER_CHARS),
            shorten(self.detail, _MAX_DETAIL_CHARS),
            None if parameter is None else shorten(parameter, _MAX_POINTER_CHARS),
        )


def shorten(text: str, most: int) -> str:
    """Return the text, cut to so many characters, the last of which then is an ellipsis.

    >>> shorten("harbour", 7), shorten("harbour", 4)
    ('harbour', 'har…')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


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
        faults: the places in a document that are at fault, if a document is; of more than 100
            the first ones, and one that says how many more there are. `details` then have the
            number of all as `fault_count`.
        request_id: the id under which a service logged the request, where the error came from one.
    """

    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, faults: tuple[Fault, ...] = (), **details: object) -> None:
        super().__init__(message)
        self.faults = tuple(fault.shortened() for fault in faults)
        self.details = details
        self.request_id: str | None = None

    @property
    def fault_count(self) -> int:
        """How many faults there are, listed or not."""
        count = self.details.get("fault_count")
        return count if isinstance(count, int) else len(self.faults)

    @property
    def listed_faults(self) -> tuple[Fault, ...]:
        """The faults without the one that counts the others."""
        return self.faults[:-1] if "fault_count" in self.details else self.faults


class InvalidInputError(LorewellError):
    """What was given can't be used."""

    @classmethod
    def at(cls, *faults: Fault, more: int = 0) -> Self:
        """Return the error that these places in a document are at fault, which its sentence tells.

        Args:
            faults: of more than 100 the first ones are kept.
            more: how many there are beside them; 100,000 and above are a least number.

        >>> str(ValidationFailedError.at(Fault("/name", "must be given")))
        '/name: must be given'
        >>> str(ValidationFailedError.at(Fault("/name", "must be given"), more=41_233))
        '/name: must be given; and 41,233 more'
        """
        kept = tuple(fault.shortened() for fault in faults[:MAX_FAULTS])
        more += len(faults) - len(kept)
        if not more:
            return cls(tell(kept), faults=kept)
        rest = f"and {'at least ' if more >= MAX_COUNTED else ''}{more:,} more"
        faults = (*kept, Fault("", rest))
        return cls(f"{tell(kept)}; {rest}", faults=faults, fault_count=len(kept) + more)

    def moved(self, place: Callable[[Fault], Fault]) -> Self:
        """Return the error that the faults are at other places, and as many.

        >>> error = ValidationFailedError.at(Fault("/name", "must be given"), more=2)
        >>> str(error.moved(lambda fault: fault._replace(pointer="/book" + fault.pointer)))
        '/book/name: must be given; and 2 more'
        """
        listed = self.listed_faults
        return self.at(*map(place, listed), more=self.fault_count - len(listed))


class MalformedJsonError(InvalidInputError):
    """The text is no JSON document."""

    code = "malformed_json"


class MalformedMultipartError(InvalidInputError):
    """The body is no multipart form."""

    code = "malformed_multipart"


class ValidationFailedError(InvalidInputError):
    """A document breaks its schema; the first 100 faults are listed, the others counted."""

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


class TooExpensiveError(InvalidInputError):
    """The request needs more steps of work than the limit; `details` say what costs them."""

    code = "too_expensive"


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


class PlacementFailedError(InvalidInputError):
    """A block wants a place that the prompt does not have; `details` say which."""

    code = "worldbook.placement_failed"


class ContextOverflowError(InvalidInputError):
    """The whole prompt needs more tokens than the window has; `details` have the figures."""

    code = "agent.context_overflow"


class IdentityMissingError(InvalidInputError):
    """A turn names no user, no conversation or no prompt."""

    code = "worldbook.identity_missing"


class UnauthenticatedError(LorewellError):
    """There is no API key, or none that this service knows."""

    code = "unauthenticated"


class ForbiddenError(LorewellError):
    """The API key does not open this tenant, or not for this; or the caller's origin is foreign."""

    code = "forbidden"


class NotFoundError(LorewellError):
    """What was asked for does not exist."""

    code = "not_found"


class GatewayOffError(NotFoundError):
    """This service forwards to no model server."""

    code = "gateway_off"


class LiveOffError(NotFoundError):
    """The live channel of this service is off."""

    code = "live_off"


class MethodNotAllowedError(LorewellError):
    """The route is there, but not for this method."""

    code = "method_not_allowed"


class MisdirectedRequestError(LorewellError):
    """The request names a host that this service does not answer for."""

    code = "misdirected_request"


class BookNotFoundError(NotFoundError):
    """No such book."""

    code = "book_not_found"


class RevisionNotFoundError(NotFoundError):
    """The book is there, this revision of it is not."""

    code = "revision_not_found"


class ConflictError(LorewellError):
    """What is there now speaks against it."""


class RevisionConflictError(ConflictError):
    """The book has moved on: `expected_revision` is not its head. `details` say both."""

    code = "revision_conflict"


class IdempotencyConflictError(ConflictError):
    """The idempotency key was used for another content."""

    code = "idempotency_conflict"


class NameTakenError(ConflictError):
    """A book or an entry of this name is there already."""

    code = "name_taken"


class BookBoundError(ConflictError):
    """An enabled binding names the book."""

    code = "book_bound"


class BindingInvalidError(ConflictError):
    """An enabled binding names a book or revision that is gone; `details` list them."""

    code = "binding_invalid"


class PolicyMismatchError(ConflictError):
    """The prompt's books run under another policy; `details` say which."""

    code = "policy_mismatch"


class ConversationMismatchError(ConflictError):
    """The conversation began with another prompt; `details` say with which."""

    code = "worldbook.conversation_mismatch"


class VectorDisabledError(ConflictError):
    """There are no vectors here."""

    code = "vector_disabled"


class IndexBusyError(ConflictError):
    """The index of that revision is being built."""

    code = "index_busy"


class IndexNotReadyError(ConflictError):
    """A revision has no index for the current embeddings; `details` list them."""

    code = "index_not_ready"


class LimitError(LorewellError):
    """Something is larger than its limit."""


class FileTooLargeError(LimitError):
    """The file is larger than the limit for one file."""

    code = "file_too_large"


class BodyTooLargeError(LimitError):
    """The body of the request is larger than the limit."""

    code = "body_too_large"


class BatchTooLargeError(LimitError):
    """The files of one request are together larger than the limit."""

    code = "batch_too_large"


class JsonTooLargeError(LimitError):
    """A JSON document holds more values than the limit."""

    code = "json_too_large"


class UnavailableError(LorewellError):
    """Something that the answer needs can't be had now; the same call may work later."""


class StorageUnavailableError(UnavailableError):
    """The database can't be reached or can't do its work. After a write it may have done it."""

    code = "storage_unavailable"


class EmbeddingUnavailableError(UnavailableError):
    """No usable vectors came from the embedder; the message says why."""

    code = "embedding_unavailable"


class ServiceUnreachableError(UnavailableError):
    """No answer came from the service. What was asked of it may have been done."""

    code = "service_unreachable"


class RequestTimeoutError(UnavailableError):
    """The body of the request did not arrive in time."""

    code = "request_timeout"


class TooManySocketsError(UnavailableError):
    """This process, or the tenant in it, has as many sockets and streams open as it may."""

    code = "too_many_sockets"


class OverloadedError(UnavailableError):
    """The service is too busy, or the work took longer than its time limit; retry later."""

    code = "overloaded"


class WorldbookUnavailableError(UnavailableError):
    """A turn got no usable answer from the service of its books; nothing went on without them."""

    code = "worldbook.service_unavailable"


class UpstreamError(UnavailableError):
    """The model server gave no usable reply."""


class UpstreamUnavailableError(UpstreamError):
    """The model server can't be reached, broke off, or can't answer now."""

    code = "upstream_unavailable"


class UpstreamTimeoutError(UpstreamUnavailableError):
    """The model server took too long to answer."""

    code = "upstream_timeout"


class UpstreamRefusedError(UpstreamError):
    """The model server refuses the request, its key or its model; `details` have the status."""

    code = "upstream_refused"


class UpstreamInvalidError(UpstreamError):
    """The reply is too large, empty, not accepted, or can't be understood."""

    code = "upstream_invalid"
