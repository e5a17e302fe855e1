"""Log lines on stderr, as text or JSON. They never hold lore, queries or secrets."""

from __future__ import annotations

import logging.config
import sys
from collections.abc import Callable
from typing import Any

import structlog
from structlog.typing import Processor

from lorewell.http.websocket import SOCKET_LOGGER
from lorewell.model.plain import plain
from lorewell.settings import Settings

_SHARED: tuple[Processor, ...] = (
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure(settings: Settings) -> None:
    """Configure the logging of this process."""
    renderer = _renderer(settings)
    structlog.configure(
        processors=[*_SHARED, _without_traceback, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(_standard_config(settings, renderer))


def _renderer(settings: Settings) -> Processor:
    if settings.log_format == "json":
        return structlog.processors.JSONRenderer()  # which escapes all but ASCII
    return _console()


def _console() -> Processor:
    """Return the text renderer: one line per event, with hidden characters escaped."""
    renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    for column in renderer.columns:
        formatter = column.formatter
        if isinstance(formatter, structlog.dev.KeyValueColumnFormatter):
            formatter.value_repr = _escape_hidden(formatter.value_repr)
    return renderer


def _escape_hidden(shown: Callable[[object], str]) -> Callable[[object], str]:
    return lambda value: plain(shown(value))


def _standard_config(settings: Settings, renderer: Processor) -> dict[str, Any]:
    """Return the configuration of standard logging, which the server and libraries use."""
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
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
            "alembic": {"level": "WARNING"},  # logs every check of the schema
            "httpcore": {"level": "WARNING"},  # logs whole headers of answers
            "httpx": {"level": "WARNING"},  # logs whole URLs with their queries
            SOCKET_LOGGER: {"level": "WARNING"},  # logs whole URLs with their queries
            "uvicorn.access": {"level": "CRITICAL"},  # each request has a line already
        },
    }


def _without_traceback(
    _logger: Any,  # noqa: ANN401  structlog's own signature
    _name: str,
    event: structlog.typing.EventDict,
) -> structlog.typing.EventDict:
    """Return the event with only the class of an error: its text may quote a person's text."""
    error = event.pop("exc_info", None)
    if error is True:  # the error that is being handled
        error = sys.exc_info()
    if isinstance(error, tuple):
        error = error[1]
    if error is not None:
        event["error"] = type(error).__name__
    return event
