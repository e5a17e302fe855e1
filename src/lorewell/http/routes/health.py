"""Health, readiness and metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST

from lorewell.errors import StorageUnavailableError
from lorewell.http.calls import JSON, OK, Measuring, answer_json, shared
from lorewell.http.openapi import documented

TAG = "health"

router = APIRouter()


def _status_schema(word: str) -> dict[str, object]:
    schema = {
        "type": "object",
        "properties": {"status": {"const": word}},
        "required": ["status"],
    }
    return {JSON: {"schema": schema}}


@router.get("/healthz", **documented(gives={OK: _status_schema("ok")}, is_open=True))
async def check_health(_request: Request) -> Response:
    """Return 200 while the process runs."""
    return answer_json(b'{"status":"ok"}')


@router.get(
    "/readyz",
    **documented(StorageUnavailableError, gives={OK: _status_schema("ready")}, is_open=True),
)
async def check_readiness(request: Request) -> Response:
    """Return 200 if the database is usable; else 503 with the failing part in `details.part`."""
    state = shared(request)
    if state.check is None or state.check.done():
        state.check = asyncio.create_task(state.services.store.check())
    part = await asyncio.shield(state.check)
    if part is not None:
        raise StorageUnavailableError("The service is not ready.", part=part, reason=part)
    return answer_json(b'{"status":"ready"}')


PROBES = [each for each in router.routes if isinstance(each, APIRoute)]
"""The routes that tell whether the service works."""


@router.get(
    "/metrics",
    **documented(gives={OK: {"text/plain": {"schema": {"type": "string"}}}}),
)
async def get_metrics(call: Measuring) -> Response:
    """Return the metrics of this service for Prometheus."""
    return Response(call.shared.metrics.to_text(), headers={"Content-Type": CONTENT_TYPE_LATEST})
