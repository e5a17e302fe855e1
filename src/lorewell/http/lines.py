"""Answers as lines of JSON (`application/x-ndjson`), each sent as soon as it is computed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lorewell.errors import LorewellError

MEDIA_TYPE: Final = "application/x-ndjson"


def wants_lines(request: Request) -> bool:
    """Return whether the client asks for lines of JSON."""
    accepted = request.headers.get("accept", "").lower()
    return any(each.split(";")[0].strip() == MEDIA_TYPE for each in accepted.split(","))


class LineStream(Response):
    """Sends lines while they are computed. The computing ends when the client leaves."""

    media_type = MEDIA_TYPE

    def __init__(self, lines: AsyncGenerator[bytes]) -> None:
        """Create a stream; nothing is computed yet."""
        super().__init__()
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  the interface of ASGI
        """Answer a request. An error after the first line becomes the last one.

        Raises:
            LorewellError: there is no first line, and nothing was sent.
        """
        async with aclosing(self._lines) as lines:
            first = await anext(lines)
            headers = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": first, "more_body": True})
            try:
                async for line in lines:
                    await send({"type": "http.response.body", "body": line, "more_body": True})
            except LorewellError as error:
                last = orjson.dumps({"code": error.code, "detail": str(error)}) + b"\n"
                await send({"type": "http.response.body", "body": last, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
