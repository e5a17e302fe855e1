"""The service under uvicorn."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from prometheus_client import values

from lorewell.bootstrap import build_services, check_database
from lorewell.errors import Fault, LorewellError, UnavailableError, ValidationFailedError
from lorewell.http import logs
from lorewell.http.accepting import AcceptingServer
from lorewell.http.app import create_app
from lorewell.http.large import LargeServer, large_requests
from lorewell.http.metrics import MULTIPROCESS
from lorewell.http.protocol import options
from lorewell.http.shutdown import (
    ANSWERS_RATIO,
    ending,
    run_workers,
    seconds_of_child,
    seconds_of_process,
)
from lorewell.model.plain import plain
from lorewell.outbound import is_loopback
from lorewell.settings import CONFIG, Settings, env_name, load_settings
from lorewell.settings_table import to_environment

_FACTORY = "lorewell.http.server:app_from_environment"
_SOURCES = Path(__file__).parents[1]
_KEEP_ALIVE_S = 30
_SWITCH_S = 0.001
_GC_THRESHOLDS = (50_000, 20, 100)
_LARGE_NICENESS = 5
_BAD_SETTING, _NOT_STARTED, _UNAVAILABLE = 2, 3, 7


def app_from_environment(on_end: Callable[[], object] | None = None) -> FastAPI:
    """Return the application with the settings of this process; uvicorn's factory.

    Args:
        on_end: called at the first signal.
    """
    settings = load_settings()
    logs.configure(settings)
    services = build_services(settings)
    app = create_app(services, settings)
    running = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        with ending(services.computing, settings, on_end):
            async with running(app) as state:
                yield state

    app.router.lifespan_context = lifespan
    # Present objects and compiled books stay: to scan them for garbage again and again takes tens
    # of milliseconds each time.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    # A computing thread delays the event loop by this time, several times per request.
    sys.setswitchinterval(_SWITCH_S)
    return app


def check_exposure(settings: Settings) -> None:
    """Raise ValidationFailedError if the whole network could use the service without a key."""
    if is_loopback(settings.host) or settings.auth or settings.allow_unauthenticated:
        return
    fault = Fault(
        "",
        f"other machines can reach {settings.host}, and API keys are off: set "
        "LOREWELL_AUTH=true, or LOREWELL_ALLOW_UNAUTHENTICATED=true for access without keys",
        parameter=env_name("host"),
    )
    raise ValidationFailedError.at(fault)


def serve(settings: Settings, *, reload: bool = False) -> None:
    """Answer requests until a signal, and then end within the time of the settings.

    With `reload`, one process answers, and restarts whenever its sources change.

    Raises:
        ValidationFailedError: other machines can reach the address and keys are off, or a setting
            is invalid.
        StorageUnavailableError: the database file is not a database, or its schema is newer than
            this program.
    """
    check_exposure(settings)
    services = build_services(settings)  # fails here for an invalid setting, not in a worker
    logs.configure(settings)
    asyncio.run(check_database(services))
    with _environment(settings):
        if reload:
            given = _uvicorn_options(settings)
            uvicorn.run(_FACTORY, **given, reload=True, reload_dirs=[str(_SOURCES)])
        elif settings.handover_bytes:
            child = settings.model_copy(update={"shutdown_seconds": seconds_of_child(settings)})
            environment = {**os.environ, **to_environment(child)}
            with large_requests(settings.handover_bytes, environment, child.shutdown_seconds) as (
                handover,
                large,
            ):
                _answer(settings, {"handover": handover}, large.end)
        else:
            _answer(settings, {}, None)


def _answer(
    settings: Settings, protocol: Mapping[str, Any], on_end: Callable[[], object] | None
) -> None:
    given = _uvicorn_options(settings, **protocol)
    if settings.workers == 1:
        config = uvicorn.Config(partial(app_from_environment, on_end), **given)
        server = AcceptingServer(config)
        with suppress(KeyboardInterrupt):
            server.run()
        if not server.started:
            sys.exit(_NOT_STARTED)
    else:
        run_workers(_FACTORY, settings.workers, on_end, **given)


def _serve_large(listener: int) -> None:
    """Answer the large requests that the processes at the other end of a socket hand over."""
    os.nice(_LARGE_NICENESS)
    config = uvicorn.Config(_FACTORY, **_uvicorn_options(load_settings()))
    with socket.socket(fileno=listener) as line:
        LargeServer(config, line).run()


def _uvicorn_options(settings: Settings, **protocol: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        **options(settings, **protocol),
        "factory": True,
        "host": settings.host,
        "port": settings.port,
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": _KEEP_ALIVE_S,
        "timeout_graceful_shutdown": seconds_of_process(settings) * ANSWERS_RATIO,
    }


@contextmanager
def _environment(settings: Settings) -> Iterator[None]:
    """Pass the settings to other processes and reloads, which read their environment."""
    before, value_class = dict(os.environ), values.ValueClass
    for name in (CONFIG, *map(env_name, Settings.model_fields)):
        os.environ.pop(name, None)
    os.environ.update(to_environment(settings))
    try:
        if settings.workers == 1 and not settings.handover_bytes:
            yield
            return
        with tempfile.TemporaryDirectory(prefix="lorewell-metrics-") as folder:
            os.environ[MULTIPROCESS] = folder  # where all processes write their metrics
            values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]  # it was loaded without the variable
            yield
    finally:
        values.ValueClass = value_class
        os.environ.clear()
        os.environ.update(before)


def main(arguments: Sequence[str] = ()) -> int:
    """Serve with the settings of the environment; return an exit code.

    Args:
        arguments: the number of a listening socket makes this the process for large requests.
    """
    try:
        if arguments:
            _serve_large(int(arguments[0]))
        else:
            serve(load_settings())
    except LorewellError as error:
        sys.stderr.write(f"{plain(str(error))}\n")
        return _UNAVAILABLE if isinstance(error, UnavailableError) else _BAD_SETTING
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
