"""The application: routes, guards and error answers around the use cases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.exceptions import (
    RequestValidationError,
    WebSocketRequestValidationError,
)
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse

from lorewell.app.services import Services
from lorewell.bootstrap import running
from lorewell.errors import (
    Fault,
    LorewellError,
    MethodNotAllowedError,
    NotFoundError,
    StorageUnavailableError,
    ValidationFailedError,
)
from lorewell.http import openapi
from lorewell.http.calls import AppState, answer_json
from lorewell.http.direct import Direct
from lorewell.http.gateway_headers import REQUEST_HEADERS, RESPONSE_HEADERS, STAINLESS
from lorewell.http.guard import Guard, open_origins
from lorewell.http.held import held_of
from lorewell.http.ledgers import ledger_path
from lorewell.http.metrics import Metrics
from lorewell.http.observe import Observe, log_failure
from lorewell.http.problems import INTERNAL_ERROR, answer_error, status_of
from lorewell.http.routes import (
    admin,
    bindings,
    books,
    conditions,
    context,
    conversations,
    demo,
    gateway,
    health,
    host,
    imports,
    index,
    lint,
    live,
    live_page,
    replays,
    replica,
    replica_chat,
    revisions,
    search,
    sillytavern,
    tokens,
    worldbooks,
)
from lorewell.http.sockets import SocketSlots, refuse
from lorewell.http.tracing import make_provider, telemetry
from lorewell.settings import Settings

# Routes are matched in this order: the most used come first.
_MODULES = (
    *(context, sillytavern, replica, replays, host, bindings, search, tokens, books, revisions),
    *(imports, gateway, conversations, conditions, lint, index, live, admin, health),
)
_SENTENCES = {"missing": "must be given"}
_METHOD_NOT_ALLOWED = 405


def create_app(services: Services, settings: Settings) -> FastAPI:
    """Return the ASGI application. It starts and stops its services with its lifespan."""
    traces = make_provider(settings)
    modules = (*_MODULES, worldbooks) if settings.replica_tenant else _MODULES

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            async with running(services):
                yield
        finally:
            if traces is not None:
                await asyncio.to_thread(traces.shutdown)  # sends the remaining spans

    app = FastAPI(
        title="Lorewell",
        version=_version(),
        summary="World books for language models",
        description="Decides which entries of a book belong in a prompt, where, and why.",
        openapi_tags=[{"name": m.TAG, "description": m.__doc__ or ""} for m in modules],
        generate_unique_id_function=lambda route: route.name,
        openapi_url=None,  # see _serve_openapi; there are no documentation pages either
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry=telemetry(traces),
    )
    metrics = Metrics()
    app.state.shared = AppState(services=services, settings=settings, metrics=metrics)
    app.state.slots = SocketSlots(settings.max_sockets, settings.max_tenant_sockets)
    for module in modules:
        app.include_router(module.router, tags=[module.TAG])
    if settings.replica_tenant:
        app.include_router(replica_chat.router)
    if settings.demo_tenant:
        app.state.demo = demo.DemoChats()
        app.include_router(demo.router)
    if settings.live:
        app.include_router(live_page.router)
    # Each middleware wraps those added before it.
    if traces is None:  # traces must show the usual path
        app.add_middleware(
            Direct,
            route=context.SELECT_ROUTE,
            endpoint=context.select_for_turn,
            probes=health.PROBES,
            failed=_answer_error,
        )
    _add_cors(app, settings)
    app.add_middleware(
        Guard, allowed_hosts=settings.allowed_hosts, cors_origins=settings.cors_origins
    )
    live_counts = None
    if services.live is not None:
        services.live.link_ledgers(ledger_path)
        live_counts = services.live.counts
    app.add_middleware(
        Observe,
        metrics=metrics,
        cache=services.cache,
        computing=services.computing,
        held=held_of(settings),
        live=live_counts,
    )
    app.add_exception_handler(LorewellError, _answer_error)
    app.add_exception_handler(HTTPException, _RoutingErrors(app).answer)
    app.add_exception_handler(RequestValidationError, _answer_bad_parameters)
    app.add_exception_handler(WebSocketRequestValidationError, _refuse_bad_parameters)
    _serve_openapi(app)
    return app


def _add_cors(app: FastAPI, settings: Settings) -> None:
    """Let pages of the configured origins read answers.

    The middleware is inside the guard, which refuses foreign hosts first, also for preflights.
    Starlette adds `Vary: Origin` to every answer.
    """
    origins = open_origins(settings.cors_origins)
    if not origins:  # a preflight is then a method that no route has
        return
    app.add_middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=("GET", "POST", "PUT", "DELETE"),
        allow_headers=(
            *("Authorization", "Content-Type", "Idempotency-Key", "X-Request-ID"),
            *REQUEST_HEADERS,
            *STAINLESS,
        ),
        expose_headers=RESPONSE_HEADERS,
    )


def _version() -> str:
    try:
        return version("lorewell")
    except PackageNotFoundError:  # pragma: no cover  run from a folder of sources
        return "0"


def _serve_openapi(app: FastAPI) -> None:
    def once() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = openapi.document(app)
        return app.openapi_schema

    app.openapi = once  # type: ignore[method-assign]  # FastAPI's documented way

    def document() -> bytes:
        return bytes(JSONResponse(once()).body)

    making: asyncio.Task[bytes] | None = None

    # FastAPI's own route would encode the document for each request, which takes milliseconds.
    @app.get("/openapi.json", include_in_schema=False)
    async def show_openapi() -> Response:
        nonlocal making
        if making is None:  # in a thread: it takes a fifth of a second
            making = asyncio.create_task(asyncio.to_thread(document))
        return answer_json(await asyncio.shield(making))


def _respond(
    request: Request, error: LorewellError, headers: Mapping[str, str] | None = None
) -> Response:
    return answer_error(error, request.scope, headers)


async def _answer_error(request: Request, error: Exception) -> Response:
    ours = cast("LorewellError", error)
    if status_of(ours) == INTERNAL_ERROR or isinstance(ours, StorageUnavailableError):
        log_failure(ours, request.state.request_id)
    return _respond(request, ours)


async def _answer_bad_parameters(request: Request, error: Exception) -> Response:
    return _respond(request, _bad_parameters(error))


async def _refuse_bad_parameters(websocket: WebSocket, error: Exception) -> None:
    await refuse(websocket, _bad_parameters(error))


def _bad_parameters(error: Exception) -> ValidationFailedError:
    items = cast("RequestValidationError", error).errors()
    faults = tuple(
        Fault("", _SENTENCES.get(item["type"], item["msg"]), parameter=str(item["loc"][-1]))
        for item in items
    )
    return ValidationFailedError.at(*faults)


class _RoutingErrors:
    """Turns the router's errors into problems."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def answer(self, request: Request, error: Exception) -> Response:
        """Return a problem for an unknown route or method."""
        status = cast("HTTPException", error).status_code
        if status == _METHOD_NOT_ALLOWED:
            allowed = ", ".join(self._methods(request))
            message = f"This route allows only {allowed}."
            return _respond(request, MethodNotAllowedError(message), {"Allow": allowed})
        if status == status_of(NotFoundError):
            return _respond(request, NotFoundError("There is no such route."))
        return _respond(request, ValidationFailedError("The request is invalid."))

    def _methods(self, request: Request) -> list[str]:
        # The router names only the first route of a path, and each route has one method.
        route = request.scope.get("route")
        path = getattr(route, "path_format", "").rstrip("/")
        methods = {
            method
            for each, declared in openapi.api_routes(self._app)
            if each == path
            for method in declared.methods or ()
        }
        return sorted(methods or getattr(route, "methods", None) or {"GET"})
