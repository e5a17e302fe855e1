"""Each route takes a body of the size that it has a use for, and says which setting that is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lorewell.http.limits import LIMITS, limit_of
from lorewell.settings import Settings
from service import Api, code, serving

PARAMS = {"tenant_id": "demo", "prompt_id": "p"}
JSON = {"Content-Type": "application/json"}


def operations(api: Api) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in api.document["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation
    ]


def test_every_route_with_a_body_has_a_limit_and_tells_it(database: str) -> None:
    with serving(database_url=database, replica_tenant="demo") as api:
        found = operations(api)
    assert {path for _, path, _ in found} == LIMITS.keys() - {"/demo/api/chat"}
    for _, path, operation in found:
        assert operation["requestBody"]["description"] == limit_of(path).describe()


def test_the_limit_of_each_route_is_in_force(database: str) -> None:
    small = {"max_body_bytes": 3_000_000, "max_turn_bytes": 1_000_000}
    with serving(database_url=database, replica_tenant="demo", demo_tenant="demo", **small) as api:
        routes = [(method, path) for method, path, _ in operations(api)]
        for method, path in (*routes, ("POST", "/demo/api/chat")):
            limit = limit_of(path).bytes_in(Settings(**small))
            shown = re.sub(r"\{\w+\}", "1", path)
            headers = {**JSON, "Content-Length": str(limit + 1)}
            if "import" in path and path != "/v1/imports":
                headers["Content-Type"] = "multipart/form-data; boundary=x"
            answer = api(method, shown, params=PARAMS, content=b"{}", headers=headers)
            assert (answer.status_code, code(answer), path) == (413, "body_too_large", path)
            problem = answer.json()
            told = problem.get("detail") or problem["error"]["message"]
            assert str(limit) in told
            assert re.search(r"LOREWELL_MAX_(BODY|TURN)_BYTES sets it|limit of this route", told)


def test_no_limit_is_above_that_of_all_bodies() -> None:
    settings = Settings(max_body_bytes=1_000)
    assert {limit.bytes_in(settings) for limit in LIMITS.values()} == {1_000}


@pytest.mark.parametrize("path", ["/v1/context/select", "/gateway/v1/chat/completions"])
def test_json_of_many_values_is_refused_before_it_is_parsed(database: str, path: str) -> None:
    body = json.dumps({"messages": [[]] * 200_000}).encode()
    with serving(database_url=database, max_json_values=200_000) as api:
        answer = api("POST", path, content=body, headers=JSON)
        assert (answer.status_code, code(answer)) == (413, "json_too_large")
        assert (
            "more than 200,000 values and names, the limit; LOREWELL_MAX_JSON_VALUES" in answer.text
        )
