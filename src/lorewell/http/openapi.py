"""The OpenAPI document. FastAPI does not see the bodies, so routes declare them with `documented`.

The schemas are those of the contract. A model with different input and output forms has two,
`Entry` and `EntryOut`: defaults may be missing in the input and are always in the output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts
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
from lorewell.http.limits import BOOKS, BodyLimit, RequestBody
from lorewell.http.problems import completion_status_of, status_of
from lorewell.model import Facts
from lorewell.model.activated import Event, ExampleEntry, Hit, ReplayedEntry
from lorewell.model.chat_replay import EntryKey, EntryUse, RefusedEntry
from lorewell.model.descriptions import describe
from lorewell.model.replica import LoadedBook, ReplicaFacts, ReplicaWarning, Suppressed
from lorewell.model.warning import TurnWarning

Document = dict[str, Any]
Mode = Literal["validation", "serialization"]
Link = tuple[str, Mapping[str, str]]
"""An operation and its parameters as runtime expressions, for a link of an answer."""

_PREFIX = "#/components/schemas/"
# Named tuples are encoded as objects; these include their null members.
_WITH_NULLS = (
    *(ExampleEntry, ReplayedEntry, Suppressed, LoadedBook),
    *(EntryKey, EntryUse, RefusedEntry),
)
_TUPLES = (Facts, Event, Hit, ReplicaFacts, ReplicaWarning, TurnWarning, *_WITH_NULLS)
_BODY = (BodyTooLargeError, RequestTimeoutError, UnsupportedMediaTypeError)
_REQUEST_ID = {"X-Request-ID": {"$ref": "#/components/headers/RequestId"}}
_BEARER = "bearer"
_BOUNDS = {"ge": "minimum", "le": "maximum"}  # pydantic does not translate those of a union


def _named(name: str) -> str:
    return name.replace("-Input", "").replace("-Output", "Out")


class SchemaRef(dict[str, str]):
    """A reference to the schema of a model, in the declaration of a route.

    The final name of the schema depends on all routes of the application: `document` replaces the
    placeholder.
    """

    def __init__(self, model: type, mode: Mode) -> None:
        super().__init__({"$ref": f"{_PREFIX}{model.__name__}-{mode}"})
        self.model, self.mode = model, mode


def api_routes(app: FastAPI) -> Iterator[tuple[str, APIRoute]]:
    """Yield the documented routes of an application with the templates of their paths."""
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and context.include_in_schema:
            yield str(context.path_format), route


def _declared(part: object) -> Iterator[SchemaRef]:
    """Yield the references in a part of a route's declaration."""
    if isinstance(part, SchemaRef):
        yield part
    elif isinstance(part, Mapping):
        for member in part.values():
            yield from _declared(member)


def _make_schemas(refs: Iterable[SchemaRef]) -> tuple[Mapping[str, str], Document]:
    """Return the final target of each reference, and all schemas."""
    models = {(ref.model, ref.mode): ref["$ref"] for ref in refs}
    wanted: list[tuple[type, Mode, TypeAdapter[Any]]] = [
        (model, mode, TypeAdapter(model)) for model, mode in models
    ]
    found, definitions = TypeAdapter.json_schemas(wanted, ref_template=_PREFIX + "{model}")
    targets = {models[key]: _named(schema["$ref"]) for key, schema in found.items()}
    schemas = {
        _named(name): {**_cleaned(schema), "title": _named(name)}  # client generators use titles
        for name, schema in sorted(cast("Document", definitions["$defs"]).items())
    }
    for schema in schemas.values():  # models have described themselves, dataclasses have not
        if "Attributes:" in schema.get("description", ""):
            describe(schema, schema["description"])
    for kind in _TUPLES:
        name, nulls = kind.__name__, kind in _WITH_NULLS
        schemas[name] = _as_object(schemas[name], kind._fields, nulls=nulls)
        describe(schemas[name], kind.__doc__ or "")
    return targets, schemas


def _cleaned(schema: Any) -> Any:  # noqa: ANN401  JSON
    """Return a schema of pydantic, corrected to what is accepted and with final names."""
    if isinstance(schema, list):
        return [_cleaned(item) for item in schema]
    if not isinstance(schema, dict):
        return _named(schema) if isinstance(schema, str) and schema.startswith(_PREFIX) else schema
    cleaned = {name: _cleaned(member) for name, member in schema.items()}
    for ours, theirs in _BOUNDS.items():
        if ours in cleaned:
            cleaned[theirs] = cleaned.pop(ours)
    if cleaned.get("default") == "" and cleaned.get("minLength"):
        del cleaned["default"]  # "" stands for "not given" and can't be sent
    if "oneOf" in cleaned:
        # A book reference without changes matches the schema of one with changes too.
        cleaned["anyOf"] = cleaned.pop("oneOf")
    return cleaned


def _as_object(schema: Document, names: Sequence[str], *, nulls: bool) -> Document:
    """Return the schema of a named tuple, encoded as an object with or without null members."""
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
    """Return the schema without null, if it allows null."""
    kinds = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return kinds[0] if _may_be_null(schema) and len(kinds) == 1 else schema


def json_body(model: type, example: object, limit: BodyLimit) -> RequestBody:
    """Return the declaration of a JSON body."""
    content = {"schema": SchemaRef(model, "validation"), "example": example}
    return RequestBody({"application/json": content}, limit)


def json_or_events(model: type) -> Document:
    """Return the content of an answer that is a model, or events if the request accepts them."""
    return {
        "application/json": {"schema": SchemaRef(model, "serialization")},
        events.MEDIA_TYPE: {"schema": {"type": "string"}},
    }


def any_body(
    description: str, limit: BodyLimit, *, own: Mapping[str, type] | None = None
) -> RequestBody:
    """Return the declaration of a JSON object of a foreign form, with members of our own."""
    properties = {name: SchemaRef(model, "validation") for name, model in (own or {}).items()}
    schema = {"type": "object", "description": description}
    content = {"schema": schema | ({"properties": properties} if properties else {})}
    return RequestBody({"application/json": content}, limit)


def file_body(field: str, most: int) -> RequestBody:
    """Return the declaration of a form with up to `most` files in one field."""
    file = {"type": "string", "format": "binary"}
    several = {"type": "array", "items": file, "minItems": 1, "maxItems": most}
    schema = {
        "type": "object",
        "properties": {field: file if most == 1 else several},
        "required": [field],
        "additionalProperties": False,
    }
    return RequestBody({multipart.MEDIA_TYPE: {"schema": schema}}, BOOKS)


def documented(
    *fails: type[LorewellError],
    gives: Mapping[int, type | Document | None],
    takes: RequestBody | None = None,
    leads_to: Mapping[str, Link] | None = None,
    is_open: bool = False,
    is_gateway: bool = False,
) -> dict[str, Any]:
    """Return FastAPI's arguments for a route, besides its path.

    Args:
        fails: the errors of the route, besides those of every route.
        gives: the success statuses, the usual one first, each with its model or content.
        takes: the declaration of the body.
        leads_to: links from the usual answer to other operations, by name.
        is_open: whether the route needs no key and no database.
        is_gateway: whether the route relays another server's answers, with errors in its form.
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
            "description": "The model server's answer, unchanged.",
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


def or_lines(model: type) -> Document:
    """Return the content of an answer that is a model, or lines of JSON if the client asks."""
    return {
        "application/json": {"schema": SchemaRef(model, "serialization")},
        "application/x-ndjson": {"schema": {"type": "string"}},
    }


def _success(given: type | Document | None) -> Document:
    success: Document = {"description": "Success.", "headers": _REQUEST_ID}
    if isinstance(given, dict):
        success["content"] = given
    elif given is not None:
        success["content"] = {"application/json": {"schema": SchemaRef(given, "serialization")}}
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
            "content": {media_type: {"schema": SchemaRef(kind, "serialization")}},
        }
        if status == status_of(UnauthenticatedError):
            failure["headers"]["WWW-Authenticate"] = {
                "schema": {"type": "string"},
                "required": True,
            }
        yield str(status), failure


def document(app: FastAPI) -> Document:
    """Return the OpenAPI document of an application, derived from its routes."""
    refs = [
        ref
        for _, route in api_routes(app)
        for ref in _declared({"gives": route.responses, "takes": route.openapi_extra})
    ]
    targets, schemas = _make_schemas(refs)
    made = get_openapi(
        title="Lorewell",
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    made["paths"] = _retargeted(made["paths"], targets)
    for operations in made["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
    made["components"] = {
        "schemas": schemas,
        "headers": {
            "RequestId": {
                "description": "The `X-Request-ID` of the request, or a generated one.",
                "required": True,
                "schema": {"type": "string", "minLength": 1, "maxLength": 100},
            }
        },
        "securitySchemes": {_BEARER: {"type": "http", "scheme": "bearer"}},
    }
    made["security"] = [{_BEARER: []}, {}]
    return made


def _retargeted(part: Any, targets: Mapping[str, str]) -> Any:  # noqa: ANN401  JSON
    """Return a part of the document whose references lead to the schemas' final names."""
    if isinstance(part, list):
        return [_retargeted(item, targets) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        name: targets.get(member, member) if name == "$ref" else _retargeted(member, targets)
        for name, member in part.items()
    }


def _without_null(schema: Document) -> Document:
    """Return the schema of a parameter without null: it may be left out, but can't be null."""
    kinds = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(kinds) != 1:
        return schema
    return {**{name: value for name, value in schema.items() if name != "anyOf"}, **kinds[0]}
