"""The OpenAPI document: bodies are parsed by hand, so what they look like is told here.

Schemas are those of the contract. A model that comes in and goes out in different forms (defaults
may be left out on the way in, and are always there on the way out) has two: `Entry`, `EntryOut`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from starlette.responses import Response

from lorewell.errors import (
    BodyTooLargeError,
    ForbiddenError,
    JsonTooLargeError,
    LorewellError,
    MalformedJsonError,
    MalformedMultipartError,
    MisdirectedRequestError,
    OverloadedError,
    RequestTimeoutError,
    StorageUnavailableError,
    UnauthenticatedError,
    UnsupportedMediaTypeError,
    ValidationFailedError,
)
from lorewell.http import events, multipart, problems
from lorewell.http.limits import limit_of
from lorewell.http.problems import completion_status_of, status_of
from lorewell.model import (
    ActivatePreview,
    ActivateRequest,
    ApiKey,
    AssembleRequest,
    AssembleResponse,
    BindingSet,
    BindingsPut,
    BookCreate,
    BookDiff,
    BookHead,
    BookPage,
    ConditionTrial,
    ConditionTried,
    Conversation,
    ConversationPage,
    CreatedKey,
    CreateResult,
    Facts,
    ImportBatch,
    ImportPreview,
    KeyList,
    KeyRequest,
    PreviewRequest,
    Published,
    PublishRequest,
    ReplayRequest,
    ReplayResponse,
    ReplicaPreview,
    ReplicaRequest,
    ReplicaResponse,
    ResolvedBindings,
    RestoreRequest,
    RevisionPage,
    SearchRequest,
    SearchResponse,
    SelectRequest,
    SelectResponse,
    SillyTavernResponse,
    StoredBook,
    TenantList,
    TokenCountRequest,
    TokenCounts,
)
from lorewell.model.activated import Event, ExampleEntry, Hit, ReplayedEntry
from lorewell.model.descriptions import describe
from lorewell.model.index import IndexBuilt, IndexPage, IndexRequest, IndexState
from lorewell.model.replica import LoadedBook, ReplicaFacts, ReplicaWarning, Suppressed

Document = dict[str, Any]
Link = tuple[str, Mapping[str, str]]
"""An operation that an answer leads to, and its parameters as runtime expressions."""

_PREFIX = "#/components/schemas/"
TAKEN: tuple[type, ...] = (
    ActivatePreview,
    ActivateRequest,
    AssembleRequest,
    BindingsPut,
    BookCreate,
    ConditionTrial,
    ImportBatch,
    IndexRequest,
    KeyRequest,
    PreviewRequest,
    PublishRequest,
    ReplayRequest,
    ReplicaPreview,
    ReplicaRequest,
    RestoreRequest,
    SearchRequest,
    SelectRequest,
    TokenCountRequest,
)
_GIVEN: tuple[type, ...] = (
    ApiKey,
    AssembleResponse,
    BindingSet,
    BookDiff,
    BookHead,
    BookPage,
    problems.CompletionError,
    ConditionTried,
    Conversation,
    ConversationPage,
    CreateResult,
    CreatedKey,
    ImportPreview,
    IndexBuilt,
    IndexPage,
    IndexState,
    KeyList,
    problems.Problem,
    Published,
    ReplayResponse,
    ReplicaResponse,
    ResolvedBindings,
    RevisionPage,
    SearchResponse,
    SelectResponse,
    SillyTavernResponse,
    StoredBook,
    TenantList,
    TokenCounts,
)
# Named tuples are written as objects, those here with their nulls.
_WITH_NULLS = (ExampleEntry, ReplayedEntry, Suppressed, LoadedBook)
_TUPLES = (Facts, Event, Hit, ReplicaFacts, ReplicaWarning, *_WITH_NULLS)
_BODY = (BodyTooLargeError, RequestTimeoutError, UnsupportedMediaTypeError)
_REQUEST_ID = {"X-Request-ID": {"$ref": "#/components/headers/RequestId"}}
_BEARER = "bearer"
_BOUNDS = {"ge": "minimum", "le": "maximum"}  # pydantic leaves those of a union as they are


def _named(name: str) -> str:
    return name.replace("-Input", "").replace("-Output", "Out")


def _make_schemas() -> tuple[Mapping[type, str], Document]:
    """Return the name of each model's schema, and all schemas."""
    wanted: list[tuple[type, Literal["validation", "serialization"], TypeAdapter[Any]]] = [
        *((model, "validation", TypeAdapter(model)) for model in TAKEN),
        *((model, "serialization", TypeAdapter(model)) for model in _GIVEN),
    ]
    refs, definitions = TypeAdapter.json_schemas(wanted, ref_template=_PREFIX + "{model}")
    names = {
        model: _named(schema["$ref"].removeprefix(_PREFIX)) for (model, _), schema in refs.items()
    }
    schemas = {
        _named(name): {**_cleaned(schema), "title": _named(name)}  # generators go by titles
        for name, schema in sorted(cast("Document", definitions["$defs"]).items())
    }
    for schema in schemas.values():  # models have described themselves, dataclasses have not
        if "Attributes:" in schema.get("description", ""):
            describe(schema, schema["description"])
    for kind in _TUPLES:
        name, nulls = kind.__name__, kind in _WITH_NULLS
        schemas[name] = _as_object(schemas[name], kind._fields, nulls=nulls)
        describe(schemas[name], kind.__doc__ or "")
    return names, schemas


def _cleaned(schema: Any) -> Any:  # noqa: ANN401  JSON
    """Return the schema as it is true to what is accepted, with the names of this document."""
    if isinstance(schema, list):
        return [_cleaned(item) for item in schema]
    if not isinstance(schema, dict):
        return _named(schema) if isinstance(schema, str) and schema.startswith(_PREFIX) else schema
    cleaned = {name: _cleaned(member) for name, member in schema.items()}
    for ours, theirs in _BOUNDS.items():
        if ours in cleaned:
            cleaned[theirs] = cleaned.pop(ours)
    if cleaned.get("default") == "" and cleaned.get("minLength"):
        del cleaned["default"]  # "not given" is no value that can be given
    if "oneOf" in cleaned:
        # A book that is only named fits the form of one with changes too.
        cleaned["anyOf"] = cleaned.pop("oneOf")
    return cleaned


def _as_object(schema: Document, names: Sequence[str], *, nulls: bool) -> Document:
    """Return the schema of a named tuple, which is written as an object, with or without nulls."""
    properties = dict(zip(names, schema["prefixItems"], strict=True))
    required = list(names)
    if not nulls:
        required = [name for name in names if not _may_be_null(properties[name])]
        properties = {name: _not_null(member) for name, member in properties.items()}
    made = {"type": "object", "title": schema["title"], "properties": properties}
    return {**made, "additionalProperties": False} | ({"required": required} if required else {})


def _may_be_null(schema: Document) -> bool:
    return any(each.get("type") == "null" for each in schema.get("anyOf", ()))


def _not_null(schema: Document) -> Document:
    """Return the schema without null, if it is one of a value that may be null."""
    kinds = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return kinds[0] if _may_be_null(schema) and len(kinds) == 1 else schema


_NAMES, SCHEMAS = _make_schemas()


def _ref(model: type) -> Document:
    return {"$ref": _PREFIX + _NAMES[model]}


def json_body(model: type, example: object) -> Document:
    """Return a JSON body of a model."""
    content = {"schema": _ref(model), "example": example}
    return {"required": True, "content": {"application/json": content}}


def json_or_events(model: type) -> Document:
    """Return the content of an answer that is a model, or events if the request accepts them."""
    return {
        "application/json": {"schema": _ref(model)},
        events.MEDIA_TYPE: {"schema": {"type": "string"}},
    }


def any_body(description: str) -> Document:
    """Return a JSON body that another server's documentation describes."""
    content = {"schema": {"type": "object", "description": description}}
    return {"required": True, "content": {"application/json": content}}


def file_body(field: str, most: int) -> Document:
    """Return a form that holds up to so many files in one field."""
    file = {"type": "string", "format": "binary"}
    several = {"type": "array", "items": file, "minItems": 1, "maxItems": most}
    schema = {
        "type": "object",
        "properties": {field: file if most == 1 else several},
        "required": [field],
        "additionalProperties": False,
    }
    return {"required": True, "content": {multipart.MEDIA_TYPE: {"schema": schema}}}


def told(
    *fails: type[LorewellError],
    gives: Mapping[int, type | Document | None],
    takes: Document | None = None,
    leads_to: Mapping[str, Link] | None = None,
    is_open: bool = False,
    is_gateway: bool = False,
) -> dict[str, Any]:
    """Return what a route tells FastAPI of itself beside its path.

    Args:
        fails: the errors that it may answer beside those that every route may.
        gives: the statuses of success, the usual one first, each with its model or its content.
        takes: its body.
        leads_to: links from the usual answer to other operations, by name.
        is_open: whether it never asks for a key, and looks up nothing.
        is_gateway: whether it passes on what another server answers, and errors look as there.
    """
    errors: list[type[LorewellError]] = [MisdirectedRequestError, ValidationFailedError]
    if not is_open:
        errors += [UnauthenticatedError, ForbiddenError, StorageUnavailableError, OverloadedError]
    if takes is not None:
        is_json = "application/json" in takes["content"]
        errors += _BODY
        errors += [MalformedJsonError, JsonTooLargeError] if is_json else [MalformedMultipartError]
    usual = next(iter(gives))
    responses: Document = {}
    for status, model in gives.items():
        responses[str(status)] = _success(model)
    if leads_to:
        responses[str(usual)]["links"] = {
            name: {"operationId": operation, "parameters": dict(parameters)}
            for name, (operation, parameters) in leads_to.items()
        }
    extra: Document = {"security": []} if is_open else {}
    if takes is not None:
        extra["requestBody"] = takes
    failures = dict(_failures([*errors, *fails, LorewellError], is_gateway=is_gateway))
    if is_gateway:
        responses["default"] = {
            "description": "Whatever the model server answered, unchanged.",
            "headers": _REQUEST_ID,
            "content": {"application/json": {"schema": {}}},
        }
    return {
        "status_code": usual,
        "response_class": Response,
        "response_model": None,
        "responses": {**responses, **failures},
        "openapi_extra": extra,
    }


def _success(given: type | Document | None) -> Document:
    success: Document = {"description": "Done.", "headers": _REQUEST_ID}
    if isinstance(given, dict):
        success["content"] = given
    elif given is not None:
        success["content"] = {"application/json": {"schema": _ref(given)}}
    return success


def _failures(
    errors: Iterable[type[LorewellError]], *, is_gateway: bool
) -> Iterator[tuple[str, Document]]:
    status_at = completion_status_of if is_gateway else status_of
    kind: type = problems.CompletionError if is_gateway else problems.Problem
    media_type = "application/json" if is_gateway else problems.MEDIA_TYPE
    by_status: dict[int, list[type[LorewellError]]] = {}
    for error in dict.fromkeys(errors):
        by_status.setdefault(status_at(error), []).append(error)
    for status, group in sorted(by_status.items()):
        lines = [f"- `{error.code}`: {(error.__doc__ or '').splitlines()[0]}" for error in group]
        failure: Document = {
            "description": "\n".join(lines),
            "headers": dict(_REQUEST_ID),
            "content": {media_type: {"schema": _ref(kind)}},
        }
        if status == status_of(UnauthenticatedError):
            failure["headers"]["WWW-Authenticate"] = {
                "schema": {"type": "string"},
                "required": True,
            }
        yield str(status), failure


def document(app: FastAPI) -> Document:
    """Return the whole document."""
    made = get_openapi(
        title="Lorewell",
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    for path, operations in made["paths"].items():
        for operation in operations.values():
            if "requestBody" in operation:
                told_limit = {"description": limit_of(path).describe()}
                operation["requestBody"] = {**told_limit, **operation["requestBody"]}
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
    made["components"] = {
        "schemas": SCHEMAS,
        "headers": {
            "RequestId": {
                "description": "The request's own `X-Request-ID`, or one made for it.",
                "required": True,
                "schema": {"type": "string", "minLength": 1, "maxLength": 100},
            }
        },
        "securitySchemes": {_BEARER: {"type": "http", "scheme": "bearer"}},
    }
    made["security"] = [{_BEARER: []}, {}]
    return made


def _without_null(schema: Document) -> Document:
    """Return the schema of a parameter: it may be left out, but there is no way to say null."""
    kinds = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(kinds) != 1:
        return schema
    return {**{name: value for name, value in schema.items() if name != "anyOf"}, **kinds[0]}
