"""A shortcut for the most frequent route."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from lorewell.errors import LorewellError
from lorewell.http.calls import Call, reading
from lorewell.model.access import TENANT_PATTERN

Endpoint = Callable[[Call], Awaitable[Response]]

_TENANT_ALONE = re.compile(b"tenant_id=" + TENANT_PATTERN.removeprefix("^").encode())


class Direct:
    """The innermost ASGI middleware: answers one path if its query holds only the tenant.

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
        failed: Callable[[Request, LorewellError], Awaitable[Response]],
    ) -> None:
        self._app, self._route, self._endpoint, self._failed = app, route, endpoint, failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if (
            scope["type"] != "http"
            or scope["path"] != self._route.path
            or scope["method"] != "POST"
            or not _TENANT_ALONE.fullmatch(scope["query_string"])
        ):
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route
        request = Request(scope, receive, send)
        try:
            tenant_id = scope["query_string"].partition(b"=")[2].decode()
            response = await self._endpoint(await reading(request, tenant_id))
        except LorewellError as error:
            response = await self._failed(request, error)
        await response(scope, receive, send)
