"""The OpenAPI document says what is true, and every reference in it leads somewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lorewell.http.examples import ASSEMBLE, SCENE
from service import BOOK, WORLD_INFO, Api, Json

# An entry at each position, and one that wakes another.
PLACED = {
    str(uid): {
        "uid": uid,
        "key": ["lamp"],
        "content": f"A {uid} lamp.",
        "position": uid,
        "order": uid,
        "outletName": "o",
        "sticky": 2,
        "group": "g" if uid < 2 else "",
        "probability": 50,
        "useProbability": uid == 3,
    }
    for uid in range(8)
}
FORCED = [{"ref": "W.1"}]


def walk(node: Json) -> Iterator[Json]:
    if isinstance(node, dict):
        yield node
        for member in node.values():
            yield from walk(member)
    elif isinstance(node, list):
        for member in node:
            yield from walk(member)


def operations(document: Json) -> Iterator[Json]:
    for methods in document["paths"].values():
        yield from methods.values()


def test_it_is_served(api: Api) -> None:
    answer = api("GET", "/openapi.json", tenant=None)
    assert answer.json() == api.document
    assert api.document["openapi"].startswith("3.1")


def test_every_model_and_property_is_described(api: Api) -> None:
    for name, schema in api.document["components"]["schemas"].items():
        assert schema["description"], name
        for member, described in schema["properties"].items():
            assert described.get("description"), f"{name}.{member}"


def test_every_reference_leads_somewhere(api: Api) -> None:
    for node in walk(api.document):
        target = node.get("$ref")
        if isinstance(target, str):
            found = api.document
            for step in target.removeprefix("#/").split("/"):
                found = found[step]


def test_every_schema_is_used(api: Api) -> None:
    used = {node["$ref"] for node in walk(api.document) if isinstance(node.get("$ref"), str)}
    schemas = api.document["components"]["schemas"]
    assert {f"#/components/schemas/{name}" for name in schemas} <= used


def test_every_operation_says_what_it_is(api: Api) -> None:
    ids = [operation["operationId"] for operation in operations(api.document)]
    assert len(ids) == len(set(ids))
    tags = {tag["name"] for tag in api.document["tags"]}
    for operation in operations(api.document):
        assert operation["summary"]
        assert operation["description"]
        assert len(operation["tags"]) == 1
        assert set(operation["tags"]) <= tags
        assert "421" in operation["responses"]
        for status, response in operation["responses"].items():
            assert "X-Request-ID" in response["headers"]
            kinds = set(response.get("content", ()))
            if operation["tags"] == ["gateway"]:
                assert "application/json" in kinds
            else:
                assert (kinds == {"application/problem+json"}) == (int(status) >= 400)


def test_links_lead_to_operations_with_such_parameters(api: Api) -> None:
    known = {each["operationId"]: each for each in operations(api.document)}
    links = [link for node in walk(api.document) for link in node.get("links", {}).values()]
    assert links
    for link in links:
        names = {each["name"] for each in known[link["operationId"]]["parameters"]}
        assert set(link["parameters"]) <= names


def test_parameters_are_never_null(api: Api) -> None:
    for operation in operations(api.document):
        for parameter in operation.get("parameters", ()):
            assert "anyOf" not in parameter["schema"]


def test_defaults_are_values_that_may_be_sent(api: Api) -> None:
    for schema in api.document["components"]["schemas"].values():
        for member in schema.get("properties", {}).values():
            if member.get("default") == "":
                assert not member.get("minLength")


def answers(api: Api) -> Iterator[tuple[str, Json]]:
    """Yield answers with the names of their schemas."""
    book_id = api.create()
    api.publish(book_id, 1, {**BOOK, "name": "Harbour Town"})
    turn = {"books": [{"book_id": book_id}], "query": "lamp"}
    yield "StoredBook", api("GET", f"/v1/books/{book_id}").json()
    yield "SelectResponse", api("POST", "/v1/context/select", json=turn).json()
    yield "SearchResponse", api("POST", "/v1/search", json=turn).json()
    yield "RevisionPage", api("GET", f"/v1/books/{book_id}/revisions").json()
    yield "BookPage", api("GET", "/v1/books").json()
    for form in (SCENE, {**SCENE, "prompts": [], "authors_note": {"value": "x"}, "forced": FORCED}):
        scene = {**form, "books": [{"name": "W", "entries": PLACED}], "conversation_id": "c"}
        yield "SillyTavernResponse", api("POST", "/v1/sillytavern/activate", json=scene).json()
    yield "ReplayResponse", api("POST", "/v1/sillytavern/replay", json=SCENE).json()
    yield "AssembleResponse", api("POST", "/v1/host/assemble", json=ASSEMBLE).json()
    compared = {**ASSEMBLE, "previous": [{"role": "system", "content": "Mira"}]}
    yield "AssembleResponse", api("POST", "/v1/host/assemble", json=compared).json()
    yield "Conversation", api("GET", "/v1/conversations/c").json()
    yield "ConversationPage", api("GET", "/v1/conversations").json()
    file = [("file", ("w.json", WORLD_INFO))]
    yield "ImportPreview", api("POST", "/v1/imports/preview", files=file).json()
    yield "Problem", api("GET", "/v1/books/nothing").json()
    yield "Problem", api("POST", "/v1/books", json={}).json()


def test_answers_obey_their_schemas(api: Api) -> None:
    validators = pytest.importorskip("jsonschema_rs")
    for name, answer in answers(api):
        schema = {
            "$ref": f"#/components/schemas/{name}",
            "components": json.loads(json.dumps(api.document["components"])),
        }
        validators.Draft202012Validator(schema).validate(answer)
