"""The parameters of the routes, each defined once."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Path, Query
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from lorewell.app.once import MAX_KEY_CHARS
from lorewell.model.access import TENANT_PATTERN
from lorewell.model.conversation import CONVERSATION_PATTERN
from lorewell.model.imports import ExportFormat

MAX_REVISION = 2**31 - 1  # what every client's and database's integer holds
MAX_PAGE = 200
MAX_EVENT = 2**63 - 1

# The query parameters of all routes: none may be repeated.
QUERY_PARAMETERS = frozenset(
    {
        "background",
        "cursor",
        "expected_revision",
        "force",
        "format",
        "from",
        "last_event_id",
        "include_deleted",
        "limit",
        "prompt_id",
        "q",
        "revision",
        "stale",
        "tenant_id",
        "to",
    }
)


def _digits(value: object) -> object:
    # Pydantic would take "1.0", "1_000" and " 1 " too.
    if isinstance(value, str) and not (value.isascii() and value.removeprefix("-").isdigit()):
        raise PydanticCustomError("integer", "must be an integer, in digits")
    return value


def _true_or_false(value: object) -> object:
    # Pydantic would take "yes", "on" and "1" too.
    if isinstance(value, str) and value not in ("true", "false"):
        raise PydanticCustomError("flag", "must be true or false")
    return value


# The bounds come first: after a validator they would be missing in the schema.
_Number = Annotated[int, Field(ge=1, le=MAX_REVISION), BeforeValidator(_digits)]

TenantId = Annotated[
    str,
    Query(pattern=TENANT_PATTERN, description="The tenant of the books; required."),
]
PromptId = Annotated[
    str, Query(min_length=1, max_length=200, description="The prompt, by the caller's own name.")
]
AnyPromptId = Annotated[
    str | None,
    Query(
        alias="prompt_id",
        min_length=1,
        max_length=200,
        description="The prompt of this turn, for live events; the answer is the same.",
    ),
]
_EventNumber = Annotated[int, Field(ge=0, le=MAX_EVENT), BeforeValidator(_digits)]
LastEventId = Annotated[
    _EventNumber | None,
    Query(description="The last event that was seen; later ones are sent first."),
]
LastEventIdHeader = Annotated[
    _EventNumber | None,
    Header(
        alias="Last-Event-ID",
        description="The same as a header, as browsers send it; it takes precedence.",
    ),
]
BookId = Annotated[str, Path(description="The id of a book, a UUID.")]
ConversationPath = Annotated[
    str,
    Path(pattern=CONVERSATION_PATTERN, description="The conversation, by the caller's own name."),
]
RevisionPath = Annotated[_Number, Path(description="The number of a revision.")]
Revision = Annotated[
    _Number | None,
    Query(description="The number of a revision; by default the latest."),
]
Target = Annotated[ExportFormat, Query(alias="format", description="The format of the document.")]
From = Annotated[_Number, Query(alias="from", description="The older revision.")]
To = Annotated[_Number, Query(alias="to", description="The newer revision.")]
WithValues = Annotated[
    bool, Query(alias="values", description="Whether to return both values of each field.")
]
ExpectedRevision = Annotated[
    _Number | None,
    Query(description="The required head of the book; not checked if not given."),
]
Limit = Annotated[
    Annotated[int, Field(ge=1, le=MAX_PAGE), BeforeValidator(_digits)],
    Query(description="The largest number of items."),
]
Cursor = Annotated[
    str | None,
    Query(max_length=1_000, description="The `next_cursor` of the previous page."),
]
NameContains = Annotated[
    str | None, Query(alias="q", max_length=300, description="A text that the name must contain.")
]
Force = Annotated[
    bool,
    BeforeValidator(_true_or_false),
    Query(description="Whether to delete a book that a prompt uses."),
]
Background = Annotated[
    bool,
    BeforeValidator(_true_or_false),
    Query(description="Whether to answer at once and build in the background."),
]
Stale = Annotated[
    bool,
    BeforeValidator(_true_or_false),
    Query(description="Whether to list only indexes that no search can use."),
]
IncludeDeleted = Annotated[
    bool, BeforeValidator(_true_or_false), Query(description="Whether to list deleted books.")
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY_CHARS,
        pattern=r"^[ -~]+$",
        description="Makes the request repeatable: a repeat returns the first result.",
    ),
]
