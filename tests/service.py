"""A service for tests: the whole application in this process, on a real database."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import httpx
from fastapi import FastAPI, routing

from lorewell.app.access import create_key
from lorewell.app.ports import Embedder, Store
from lorewell.app.runtime.query_vectors import QueryVectors
from lorewell.bootstrap import build_services
from lorewell.http.app import create_app
from lorewell.model import KeyRequest
from lorewell.settings import Settings, load_settings

Json = Any
UNKNOWN_BOOK = "99999999-9999-4999-8999-999999999999"
BOOK = {"name": "Harbour", "entries": [{"id": "lamp", "content": "A lamp.", "keys": ["lamp"]}]}
WORLD_INFO = b'{"entries": {"0": {"uid": 0, "key": ["lamp"], "content": "A lamp."}}}'
# A busy machine fails no test.
PATIENT = {"turn_seconds": 60, "import_seconds": 60, "queue_seconds": 60}
_HOST = "http://localhost"


def share_signatures() -> None:
    """Let FastAPI read the parameters of an endpoint once: for each application, it takes longest.

    Endpoints that an application makes for itself are left out, so that it is not kept by them.
    """
    read = routing._build_dependant_with_parameterless_dependencies

    @cache
    def read_once(path: str, call: Callable[..., Any], dependencies: tuple[Any, ...]) -> Any:
        return read(path=path, call=call, dependencies=dependencies)

    def shared(*, path: str, call: Callable[..., Any], dependencies: Sequence[Any]) -> Any:
        if "<locals>" in getattr(call, "__qualname__", "<locals>"):
            return read(path=path, call=call, dependencies=dependencies)
        analysed, *rest = read_once(path, call, tuple(dependencies))
        return replace(analysed), *rest

    routing._build_dependant_with_parameterless_dependencies = shared


share_signatures()

_documents: dict[frozenset[str], Json] = {}


def document_of(app: FastAPI) -> Json:
    """Return the OpenAPI document, made once for each set of routes: that takes half a test."""
    tags = frozenset(tag["name"] for tag in app.openapi_tags or ())
    app.openapi_schema = _documents.get(tags) or app.openapi()
    return _documents.setdefault(tags, app.openapi_schema)


class Api:
    """Sends requests to an application; its OpenAPI document must list every answer."""

    def __init__(self, app: FastAPI, runner: asyncio.Runner) -> None:
        self.app, self._runner = app, runner
        self.document: Json = document_of(app)
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=_HOST, timeout=60
        )
        self._templates = {
            path: re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in self.document["paths"]
        }

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    def __call__(self, method: str, path: str, **given: Any) -> httpx.Response:
        return self.run(self.ask(method, path, **given))

    async def ask(
        self, method: str, path: str, *, tenant: str | None = "demo", **given: Any
    ) -> httpx.Response:
        """Ask for a path, of a tenant unless it is None."""
        if tenant is not None:
            given["params"] = {"tenant_id": tenant, **given.get("params", {})}
        answer = await self.client.request(method, path, **given)
        self.check(answer)
        return answer

    def check(self, answer: httpx.Response) -> None:
        assert answer.headers["X-Request-ID"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        operation = self._operation(answer.request)
        if operation is None:
            return
        documented = operation["responses"].get(str(answer.status_code))
        if answer.request.url.path.startswith("/gateway/"):  # errors have OpenAI's form there
            assert documented or "default" in operation["responses"]
            if answer.status_code >= 400:
                assert f"`{code(answer)}`" in documented["description"], answer.text
            return
        assert documented, (answer.status_code, answer.text)
        if answer.status_code >= 400:
            problem = answer.json()
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert problem["status"] == answer.status_code
            assert problem["request_id"] == answer.headers["X-Request-ID"]
            assert f"`{problem['code']}`" in documented["description"], problem

    def _operation(self, request: httpx.Request) -> Json:
        found = [path for path, form in self._templates.items() if form.fullmatch(request.url.path)]
        path = min(found, key=lambda each: each.count("{"), default=None)
        return path and self.document["paths"][path].get(request.method.lower())

    def create(self, book: Mapping[str, Any] = BOOK, **given: Any) -> str:
        """Store a book and return its id."""
        answer = self("POST", "/v1/books", json=book, **given)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["books"][0]["book_id"])

    def publish(self, book_id: str, expected: int, book: Mapping[str, Any] = BOOK) -> Json:
        path = f"/v1/books/{book_id}/revisions"
        answer = self("POST", path, json={**book, "expected_revision": expected})
        assert answer.status_code == 201, answer.text
        return answer.json()


@contextmanager
def serving(
    store: Store | None = None, with_embedder: Embedder | None = None, **given: Any
) -> Iterator[Api]:
    """Yield an application with these settings, and with this store or embedder if given."""
    # The gateway routes need an upstream; tests that need one that answers pass its URL.
    usual = {"gateway_upstream_url": "http://127.0.0.1:9/v1", **PATIENT}
    settings = load_settings(**{**usual, **given})
    services = build_services(settings)
    if with_embedder is not None:
        queries = QueryVectors(with_embedder)
        services = replace(services, embedder=with_embedder, queries=queries)
    if store is not None:
        services = replace(services, store=store)
    app = create_app(services, settings)
    with asyncio.Runner() as runner:
        lifespan = app.router.lifespan_context(app)
        runner.run(lifespan.__aenter__())
        try:
            yield Api(app, runner)
        finally:
            runner.run(lifespan.__aexit__(None, None, None))


def bearer(api: Api, *scopes: str, tenants: tuple[str, ...] = ("demo",)) -> dict[str, str]:
    """Return the header of a new key."""
    request = KeyRequest.model_validate({"tenants": tenants, "scopes": scopes})
    key = api.run(create_key(api.app.state.shared.services, request))
    return {"Authorization": f"Bearer {key.secret}"}


def settings_of(api: Api) -> Settings:
    settings: Settings = api.app.state.shared.settings
    return settings


def code(answer: httpx.Response) -> str:
    """Return the code of a problem, or the status of a success."""
    if answer.status_code < 400:
        return str(answer.status_code)
    problem = answer.json()
    return str(problem.get("error", problem)["code"])


def places(answer: httpx.Response) -> list[str]:
    """Return the pointers and parameters that a problem names."""
    problem = answer.json()
    if "error" in problem:
        return [problem["error"]["param"]]
    return [item.get("pointer", item.get("parameter")) for item in problem["errors"]]
