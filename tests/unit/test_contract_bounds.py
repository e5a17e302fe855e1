"""Every text, list and object that the contract takes has a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lorewell.bootstrap import build_services
from lorewell.http.app import create_app
from lorewell.settings import load_settings

# Of these the whole object is measured, as JSON, or only the body's size counts: what a provider or
# a foreign program wants in it is not ours to say.
FREE = {
    "AttachedBook/entries",
    "Condition/value",
    "Entry/metadata",
    "Entry/source",
    "Entry/replica",
    "BookCreate/metadata",
    "PublishRequest/metadata",
    "ForcedEntry/entry",
    "ForcedEntry/override",
    "ActivatePreview/timed_state",
    "ActivateRequest/timed_state",
    "LintRequest/with",
    "ReplayRequest/timed_state",
    "Activation/timed_state",
    "ConditionTrial/table",
    "PreviewRequest/state",
    "SelectRequest/state",
    "Scene/state",
    "Scene/tables",
    "DynamicTable/currentValues",
    "ReplicaPreview/books",
    "ReplicaRequest/books",
    "ReplicaPreview/chatHistory",
    "ReplicaRequest/chatHistory",
    "PromptBudget/tools",
    "AssembleRequest/previous",
    "DraftMessage/message",
    "ActiveDepthGroup/depth",
    "ActiveDepthGroup/role",
}
BOUNDS = {
    "string": {"maxLength", "pattern", "enum", "const"},
    "array": {"maxItems"},
    "object": {"maxProperties", "properties"},
}


def parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schema and those in it, but not those that it refers to."""
    yield schema
    for name, below in schema.items():
        if name in ("items", "additionalProperties", "propertyNames") and isinstance(below, dict):
            yield from parts(below)
        if name in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for each in below:
                yield from parts(each)


def test_every_field_has_a_bound() -> None:
    settings = load_settings()
    document = create_app(build_services(settings), settings).openapi()
    schemas = document["components"]["schemas"]
    unbounded = {
        f"{name}/{field}"
        for name in reached(document)
        for field, schema in schemas[name].get("properties", {}).items()
        for part in parts(schema)
        if part.get("type") in BOUNDS and BOUNDS[part["type"]].isdisjoint(part)
    }
    assert unbounded - FREE == set()


def reached(document: dict[str, Any]) -> set[str]:
    """Return the schemas of everything that a body can hold."""
    found: set[str] = set()
    schemas = document["components"]["schemas"]
    waiting = [
        name
        for operations in document["paths"].values()
        for operation in operations.values()
        for name in refs(operation.get("requestBody"))
    ]
    assert "BookCreate" in waiting
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += refs(schemas[name])
    return found


def refs(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for member in schema.values():
            yield from refs(member)
    elif isinstance(schema, list):
        for item in schema:
            yield from refs(item)
