"""The service with one more route, which reads and checks a selection's request and does no more.

`python -m deep.empty_route` serves it with the settings of the environment, as
`python -m lorewell.http.server` serves the service.
"""

from __future__ import annotations

import sys

from fastapi import APIRouter, FastAPI, Response

from lorewell.http import server
from lorewell.http.calls import NO_CONTENT, Reading
from lorewell.http.examples import SELECT
from lorewell.http.limits import TURN
from lorewell.http.openapi import documented, json_body
from lorewell.http.parameters import AnyPromptId
from lorewell.model import SelectRequest

PATH = "/v1/context/empty"

router = APIRouter()


@router.post(
    PATH, **documented(gives={NO_CONTENT: None}, takes=json_body(SelectRequest, SELECT, TURN))
)
async def check_turn(call: Reading, prompt_id: AnyPromptId = None) -> Response:
    """Check a request."""
    del prompt_id
    await call.body(SelectRequest)
    return Response(status_code=NO_CONTENT)


def app() -> FastAPI:
    made = server.app_from_environment()
    before = len(made.router.routes)
    made.include_router(router)
    # To the front: routes are tried one by one, and that is no part of the comparison.
    routes = made.router.routes
    routes[:] = routes[before:] + routes[:before]
    return made


if __name__ == "__main__":
    server._FACTORY = "deep.empty_route:app"
    sys.exit(server.main())
