"""Whether the service runs and can work, and its figures."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from lorewell.errors import StorageUnavailableError
from lorewell.http.calls import JSON, OK, Measuring, answer_json, shared
from lorewell.http.openapi import told

TAG = "health"

router = APIRouter()


def _status(word: str) -> dict[str, object]:
    schema = {
        "type": "object",
        "properties": {"status": {"const": word}},
        "required": ["status"],
    }
    return {JSON: {"schema": schema}}


@router.get("/healthz", **told(gives={OK: _status("ok")}, is_open=True))
async def check_health() -> Response:
    """Say that the process runs."""
    return answer_json(b'{"status":"ok"}')


@router.get(
    "/readyz",
    **told(StorageUnavailableError, gives={OK: _status("ready")}, is_open=True),
)
async def check_readiness(request: Request) -> Response:
    """Say that the database can be used; if not, `details.part` is what is not ready."""
    part = await shared(request).services.store.check()
    if part is not None:
        raise StorageUnavailableError("The service is not ready.", part=part, reason=part)
    return answer_json(b'{"status":"ready"}')


@router.get(
    "/metrics",
    **told(gives={OK: {"text/plain": {"schema": {"type": "string"}}}}),
)
async def get_metrics(call: Measuring) -> Response:
    """Return the figures of this service for Prometheus."""
    return Response(call.shared.metrics.to_text(), headers={"Content-Type": CONTENT_TYPE_LATEST})
