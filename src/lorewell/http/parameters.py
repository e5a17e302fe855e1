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

# Every query parameter that some route knows: none may be given twice.
NAMES = frozenset(
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


# The bounds stand first: after a validator they would be no part of the schema.
_Number = Annotated[int, Field(ge=1, le=MAX_REVISION), BeforeValidator(_digits)]

TenantId = Annotated[
    str,
    Query(pattern=TENANT_PATTERN, description="Whose books: there is no default."),
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
        description="The prompt that this is for; it changes nothing in the answer.",
    ),
]
_EventNumber = Annotated[int, Field(ge=0, le=MAX_EVENT), BeforeValidator(_digits)]
LastEventId = Annotated[
    _EventNumber | None,
    Query(description="The last event that was seen; what came since is told first."),
]
LastEventIdHeader = Annotated[
    _EventNumber | None,
    Header(alias="Last-Event-ID", description="The same, as browsers say it; it counts."),
]
BookId = Annotated[str, Path(description="A book's id, a UUID.")]
ConversationPath = Annotated[
    str, Path(pattern=CONVERSATION_PATTERN, description="A conversation, by the caller's own name.")
]
RevisionPath = Annotated[_Number, Path(description="A revision.")]
Revision = Annotated[
    _Number | None,
    Query(description="A revision; the latest one if not given."),
]
Target = Annotated[ExportFormat, Query(alias="format", description="The format of the document.")]
From = Annotated[_Number, Query(alias="from", description="The older revision.")]
To = Annotated[_Number, Query(alias="to", description="The newer revision.")]
ExpectedRevision = Annotated[
    _Number | None,
    Query(description="What the book's head must be, if given."),
]
Limit = Annotated[
    Annotated[int, Field(ge=1, le=MAX_PAGE), BeforeValidator(_digits)],
    Query(description="How many at most."),
]
Cursor = Annotated[
    str | None,
    Query(max_length=1_000, description="`next_cursor` of the page before."),
]
NameContains = Annotated[
    str | None, Query(alias="q", max_length=300, description="What the name must contain.")
]
Force = Annotated[
    bool,
    BeforeValidator(_true_or_false),
    Query(description="Whether to delete what a prompt still uses."),
]
Background = Annotated[
    bool,
    BeforeValidator(_true_or_false),
    Query(description="Whether to answer at once, and to build meanwhile."),
]
Stale = Annotated[
    bool,
    BeforeValidator(_true_or_false),
    Query(description="Whether to list only what no search can use as it is."),
]
IncludeDeleted = Annotated[
    bool, BeforeValidator(_true_or_false), Query(description="Whether deleted books are listed.")
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY_CHARS,
        pattern=r"^[ -~]+$",
        description="Makes the request repeatable: done once, then told again.",
    ),
]
