"""A shortcut for the most frequent routes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from lorewell.errors import LorewellError
from lorewell.http.calls import Call, reading
from lorewell.model.access import TENANT_PATTERN

Endpoint = Callable[[Call], Awaitable[Response]]
Answer = Callable[[Request], Awaitable[Response]]

_TENANT_ALONE = re.compile(b"tenant_id=" + TENANT_PATTERN.removeprefix("^").encode())


class Direct:
    """The innermost ASGI middleware: answers probes, and a path whose query is the tenant alone.

    Matching a route and resolving its parameters costs about 0.5 ms. Without it the server needs
    23 % less CPU time for a selection from 50 entries and 16 % less for one from 1,000 (medians of
    10,000 requests of each kind in alternation, uvicorn and SQLite included). With anything else in
    the query the request takes the usual path, to the same endpoint.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        route: APIRoute,
        endpoint: Endpoint,
        probes: Iterable[APIRoute],
        failed: Callable[[Request, LorewellError], Awaitable[Response]],
    ) -> None:
        self._app, self._route, self._endpoint, self._failed = app, route, endpoint, failed
        self._probes = {each.path: (each, each.endpoint) for each in probes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        found = self._find(scope)
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["route"], answer = found
        request = Request(scope, receive, send)
        try:
            response = await answer(request)
        except LorewellError as error:
            response = await self._failed(request, error)
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> tuple[APIRoute, Answer] | None:
        if scope["type"] != "http":
            return None
        path, query = scope["path"], scope["query_string"]
        if scope["method"] == "GET":
            return None if query else self._probes.get(path)
        if (
            scope["method"] == "POST"
            and path == self._route.path
            and _TENANT_ALONE.fullmatch(query)
        ):
            return self._route, self._answer
        return None

    async def _answer(self, request: Request) -> Response:
        tenant_id = request.scope["query_string"].partition(b"=")[2].decode()
        return await self._endpoint(await reading(request, tenant_id))
