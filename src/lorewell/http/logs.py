"""Log lines: for people or as JSON, to stderr. They never hold lore, queries or secrets."""

from __future__ import annotations

import logging.config
import sys
from typing import Any

import structlog
from structlog.typing import Processor

from lorewell.http.websocket import SOCKET_LOGGER
from lorewell.settings import Settings

_SHARED: tuple[Processor, ...] = (
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure(settings: Settings) -> None:
    """Set up the logging of this process."""
    renderer = _renderer(settings)
    structlog.configure(
        processors=[*_SHARED, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(_standard(settings, renderer))


def _renderer(settings: Settings) -> Processor:
    if settings.log_format == "json":
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())


def _standard(settings: Settings, renderer: Processor) -> dict[str, Any]:
    """Return the set-up of the standard library's logging, which the server and others use."""
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        # Without tracebacks: the text of an error may quote what a person wrote.
        "processors": [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _without_traceback,
            renderer,
        ],
        "foreign_pre_chain": list(_SHARED),
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["stderr"], "level": settings.log_level.upper()},
        "loggers": {
            "alembic": {"level": "WARNING"},  # it tells of every look at the schema
            "httpcore": {"level": "WARNING"},  # it tells whole headers of others' answers
            "httpx": {"level": "WARNING"},  # it tells whole addresses, with their queries
            SOCKET_LOGGER: {"level": "WARNING"},  # it tells whole addresses, with their queries
            "uvicorn.access": {"level": "CRITICAL"},  # there is a line a request already
        },
    }


def _without_traceback(
    _logger: Any,  # noqa: ANN401  structlog's own signature
    _name: str,
    event: structlog.typing.EventDict,
) -> structlog.typing.EventDict:
    error = event.pop("exc_info", None)
    if isinstance(error, tuple):
        error = error[1]
    if error is not None:
        event["error"] = type(error).__name__
    return event
