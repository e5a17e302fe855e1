"""The short way through FastAPI, for the one route that is asked all the time."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from lorewell.http.calls import reading
from lorewell.model.access import TENANT_PATTERN

_TENANT = re.compile(TENANT_PATTERN)
_TENANT_ALONE = ("tenant_id",)


class DirectRoute(APIRoute):
    """A reading route that resolves no parameters where only the tenant is given.

    That takes as long as a small selection. With anything else in the query it is an ordinary
    route, and its endpoint is the same one.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        ordinary = super().get_route_handler()

        async def answer(request: Request) -> Response:
            given = request.query_params
            if tuple(given) == _TENANT_ALONE and _TENANT.fullmatch(given["tenant_id"]):
                response: Response = await self.endpoint(await reading(request, given["tenant_id"]))
                return response
            return await ordinary(request)

        return answer
