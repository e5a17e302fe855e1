"""Each route takes a body of the size that it has a use for, and says which setting that is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lorewell.http import limits
from lorewell.http.limits import BodyLimit
from lorewell.settings import Settings
from service import Api, code, serving

PARAMS = {"tenant_id": "demo", "prompt_id": "p"}
JSON = {"Content-Type": "application/json"}


LIMITS = (limits.BOOKS, limits.TURN, limits.SMALL, limits.TRIAL, limits.REPLICA)


def limit_of(operation: dict[str, Any]) -> BodyLimit:
    """Return the limit that an operation documents."""
    description = operation["requestBody"]["description"]
    (limit,) = (each for each in LIMITS if each.describe() == description)
    return limit


def operations(api: Api) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in api.document["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation
    ]


def test_every_route_with_a_body_documents_its_limit(database: str) -> None:
    with serving(database_url=database, replica_tenant="demo") as api:
        found = {f"{method} {path}": limit_of(each) for method, path, each in operations(api)}
    assert found["POST /v1/context/select"] is limits.TURN
    assert found["PUT /v1/prompt-bindings"] is limits.SMALL
    assert found["POST /v1/replica/activate"] is limits.REPLICA
    assert found["POST /v1/conditions/try"] is limits.TRIAL
    assert found["POST /v1/books"] is limits.BOOKS


def test_the_limit_of_each_route_is_in_force(database: str) -> None:
    small = {"max_body_bytes": 3_000_000, "max_turn_bytes": 1_000_000}
    with serving(database_url=database, replica_tenant="demo", demo_tenant="demo", **small) as api:
        routes = [(method, path, limit_of(each)) for method, path, each in operations(api)]
        routes += [
            ("POST", "/demo/api/chat", limits.SMALL),
            ("POST", "/api/worldbooks/", limits.BOOKS),
        ]
        for method, path, own in routes:
            limit = own.bytes_in(Settings(**small))
            shown = re.sub(r"\{\w+\}", "1", path)
            headers = {**JSON, "Content-Length": str(limit + 1)}
            if "import" in path and path != "/v1/imports":
                headers["Content-Type"] = "multipart/form-data; boundary=x"
            answer = api(method, shown, params=PARAMS, content=b"{}", headers=headers)
            assert (answer.status_code, code(answer), path) == (413, "body_too_large", path)
            problem = answer.json()
            detail = problem.get("detail") or problem["error"]["message"]
            assert str(limit) in detail
            assert re.search(r"LOREWELL_MAX_(BODY|TURN)_BYTES sets it|limit of this route", detail)


def test_no_limit_is_above_that_of_all_bodies() -> None:
    settings = Settings(max_body_bytes=1_000)
    assert {limit.bytes_in(settings) for limit in LIMITS} == {1_000}


@pytest.mark.parametrize("path", ["/v1/context/select", "/gateway/v1/chat/completions"])
def test_json_of_many_values_is_refused_before_it_is_parsed(database: str, path: str) -> None:
    body = json.dumps({"messages": [[]] * 200_000}).encode()
    with serving(database_url=database, max_json_values=200_000) as api:
        answer = api("POST", path, content=body, headers=JSON)
        assert (answer.status_code, code(answer)) == (413, "json_too_large")
        assert (
            "more than 200,000 values and names (the limit); LOREWELL_MAX_JSON_VALUES"
            in answer.text
        )
