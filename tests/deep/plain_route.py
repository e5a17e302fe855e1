"""The service with one more route: a plain reverse proxy to the gateway's model server.

`python -m deep.plain_route` serves it with the settings of the environment, as
`python -m lorewell.http.server` serves the service.
"""

from __future__ import annotations

import sys

from fastapi import APIRouter, FastAPI, Request, Response

from lorewell.app.ports import UpstreamCall
from lorewell.http import server
from lorewell.http.calls import shared
from lorewell.http.gateway_headers import forwarded_headers
from lorewell.http.relay import Relay

PATH = "/gateway/v1/plain"

router = APIRouter()


@router.post(PATH)
async def forward(request: Request) -> Response:
    """Forward a request as it is."""
    gateway = shared(request).services.gateway
    assert gateway is not None
    call = UpstreamCall(
        method="POST",
        path="/chat/completions",
        headers=forwarded_headers(request.headers.raw),
        body=await request.body(),
    )
    return Relay(gateway.upstream, call, {}, _always)


async def _always() -> None:
    """Let the answer go on."""


def app() -> FastAPI:
    made = server.app_from_environment()
    before = len(made.router.routes)
    made.include_router(router)
    # To the front: routes are tried one by one, and that is no part of the comparison.
    routes = made.router.routes
    routes[:] = routes[before:] + routes[:before]
    return made


if __name__ == "__main__":
    server._FACTORY = "deep.plain_route:app"
    sys.exit(server.main())
