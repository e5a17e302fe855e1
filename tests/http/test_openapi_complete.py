"""Every route of docs/rules/native.md §6 is in the OpenAPI document, with its success answer."""

from __future__ import annotations

import pytest

from service import Api

# (the row of the table, the route, the statuses of its successes)
ROUTES = [
    ("1", "POST /v1/books", "201 200"),
    ("2", "GET /v1/books", "200"),
    ("3", "GET /v1/books/{book_id}", "200"),
    ("4", "GET /v1/books/{book_id}/revisions", "200"),
    ("5", "POST /v1/books/{book_id}/revisions", "201 200"),
    ("6", "GET /v1/books/{book_id}/diff", "200"),
    ("7", "POST /v1/books/{book_id}/revisions/{n}/restore", "201 200"),
    ("8", "DELETE /v1/books/{book_id}", "204"),
    ("9", "POST /v1/books/{book_id}/restore", "200"),
    ("10", "POST /v1/imports", "201 200"),
    ("11", "POST /v1/imports/preview", "200"),
    ("12", "POST /v1/imports/files", "201 200"),
    ("13", "POST /v1/books/{book_id}/index", "200 202"),  # 202 where it goes on in background
    ("14", "GET /v1/books/{book_id}/index", "200"),
    ("15", "POST /v1/context/select", "200"),
    ("15a", "POST /v1/context/preview", "200"),
    ("15b", "POST /v1/tokens/count", "200"),
    ("conditions", "POST /v1/conditions/try", "200"),
    ("lint", "POST /v1/lint", "200"),
    ("host", "POST /v1/host/assemble", "200"),
    ("16", "POST /v1/search", "200"),
    ("17", "PUT /v1/prompt-bindings", "200"),
    ("18", "GET /v1/prompt-bindings", "200"),
    ("19", "GET /v1/prompt-bindings/resolve", "200"),
    ("20", "GET /v1/admin/tenants", "200"),
    ("20", "GET /v1/admin/books", "200"),
    ("20", "GET /v1/admin/books/{book_id}", "200"),
    ("20a", "GET /v1/admin/keys", "200"),
    ("20a", "POST /v1/admin/keys", "201"),
    ("20a", "DELETE /v1/admin/keys/{id}", "204"),
    ("21", "GET /healthz", "200"),
    ("22", "GET /readyz", "200"),
]


def test_every_route_is_there_with_its_successes(api: Api) -> None:
    served = {
        f"{method.upper()} {path.replace('{key_id}', '{id}')}": {
            status for status in operation["responses"] if status.startswith("2")
        }
        for path, methods in api("GET", "/openapi.json", tenant=None).json()["paths"].items()
        for method, operation in methods.items()
    }
    for row, route, statuses in ROUTES:
        assert served.get(route) == set(statuses.split()), row


@pytest.mark.parametrize(("row", "route", "statuses"), ROUTES, ids=[each[1] for each in ROUTES])
def test_every_route_but_admin_and_health_needs_a_tenant(
    api: Api, row: str, route: str, statuses: str
) -> None:
    del row, statuses
    method, path = route.split()
    operation = api.document["paths"][path.replace("{id}", "{key_id}")][method.lower()]
    required = {each["name"] for each in operation.get("parameters", ()) if each["required"]}
    assert ("tenant_id" in required) == (path.startswith("/v1/") and "/admin/" not in path)
