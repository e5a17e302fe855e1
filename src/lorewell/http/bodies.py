"""Bodies of requests: counted while they arrive, and given only so much time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel
from starlette.datastructures import Headers

from lorewell.errors import (
    JsonTooLargeError,
    MalformedJsonError,
    RequestTimeoutError,
    StorageUnavailableError,
    UnsupportedMediaTypeError,
)
from lorewell.http.held import BODY, Hold
from lorewell.http.limits import limit_of
from lorewell.model.parse import parse_json, parse_model
from lorewell.settings import Settings, env_name

Model = TypeVar("Model", bound=BaseModel)
Compute = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Does work in the compute pool, on behalf of the request's tenant."""

Watch = Callable[[], None]
WatchedCompute = Callable[[Callable[[Watch], Any]], Awaitable[Any]]
"""The same for work that calls what it is given every few milliseconds."""

# Parsing less than this takes less time than to hand it to a thread and back.
_SMALL_BYTES = 32_768
_IN_MEMORY_BYTES = 524_288
_MAX_DIGITS = 18
_LEAST_BYTES_PER_S = 65_536


async def receive_body(
    request: Request, settings: Settings, sink: Callable[[bytes], object]
) -> None:
    """Pass the body on, piece by piece.

    Args:
        request: whose body.
        settings: how large it may be, and how slow.
        sink: takes the pieces.

    Raises:
        BodyTooLargeError: it is larger than the limit of its route; no more than that was read,
            and nothing of it if its length was declared.
        RequestTimeoutError: the sender is too slow.
        OverloadedError: with all others it would be too much to hold.
        StorageUnavailableError: there is no room to keep it meanwhile.
    """
    limit = limit_of(request.scope["route"].path_format)
    limit.check(declared_bytes(request.headers), settings)
    hold: Hold = request.scope["state"][BODY]
    received, begin = 0, asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(settings.body_timeout_s) as patience:
            async for piece in request.stream():
                received += len(piece)
                limit.check(received, settings)
                hold.add(len(piece))
                earned_s = settings.body_timeout_s + received / _LEAST_BYTES_PER_S
                patience.reschedule(begin + earned_s)
                sink(piece)
    except TimeoutError as error:
        raise RequestTimeoutError("The body of the request did not arrive in time.") from error
    except OSError as error:  # the disk that the spooled part is on
        raise StorageUnavailableError("There is no room for the body.") from error


def declared_bytes(headers: Headers) -> int:
    """Return how long the body is said to be, 0 if nothing sensible is said."""
    length = headers.get("content-length", "")
    return int(length[:_MAX_DIGITS]) if length.isascii() and length.isdigit() else 0


def check_media_type(request: Request, wanted: str) -> None:
    """Raise UnsupportedMediaTypeError unless the body is of this kind, and not compressed.

    A form on a foreign page can send some kinds without asking, JSON is not one of them.
    """
    given = request.headers.get("content-type", "")
    kind, _, parameters = given.partition(";")
    charset = parameters.replace(" ", "").replace('"', "").lower().partition("charset=")[2]
    packed = request.headers.get("content-encoding", "identity").lower()
    if kind.strip().lower() != wanted or charset.partition(";")[0] not in ("", "utf-8", "utf8"):
        raise UnsupportedMediaTypeError(f"The body must be {wanted}.", expected=wanted)
    if packed != "identity":
        raise UnsupportedMediaTypeError("The body must not be compressed.", expected=wanted)


async def read_model(
    request: Request, settings: Settings, model: type[Model], compute: WatchedCompute
) -> Model:
    """Return the JSON body as a model; a large one is parsed by `compute`.

    Raises:
        UnsupportedMediaTypeError: it is said to be no JSON.
        BodyTooLargeError, RequestTimeoutError: as `receive_body`.
        MalformedJsonError: it is no JSON.
        JsonTooLargeError: it holds more values than the limit.
        ValidationFailedError: it breaks the schema; pointers are into the body.
    """
    _check_json_comes(request)
    with spool() as body:
        await receive_body(request, settings, body.write)
        size = body.tell()
        body.seek(0)

        def parse(watch: Watch | None = None) -> Model:
            with naming_the_limit(settings):
                most = settings.max_json_values
                document = parse_json(body.read(), max_values=most, watch=watch)
            return parse_model(model, document, watch=watch)

        if size < _SMALL_BYTES:
            return parse()
        parsed: Model = await compute(parse)
        return parsed


@contextmanager
def naming_the_limit(settings: Settings) -> Iterator[None]:
    """Say which setting limits the values of a JSON document, where it holds too many."""
    try:
        yield
    except JsonTooLargeError as error:
        limit, setting = settings.max_json_values, env_name("max_json_values")
        message = f"{str(error).removesuffix('.')}; {setting} sets it."
        raise JsonTooLargeError(message, limit_values=limit) from error


async def read_body(request: Request, settings: Settings) -> bytes:
    """Return the JSON body as it is, not parsed yet.

    Raises:
        UnsupportedMediaTypeError, BodyTooLargeError, RequestTimeoutError, MalformedJsonError: as
            `read_model`.
    """
    _check_json_comes(request)
    with spool() as body:
        await receive_body(request, settings, body.write)
        body.seek(0)
        return body.read()


def _check_json_comes(request: Request) -> None:
    if _is_absent(request):
        raise MalformedJsonError("The request has no body; it must be a JSON document.")
    check_media_type(request, "application/json")


def spool() -> SpooledTemporaryFile[bytes]:
    """Return a file that is in memory while it is small.

    So bodies that are on their way, and those that turn out to be too large, take little memory
    however many there are of them.
    """
    return SpooledTemporaryFile(_IN_MEMORY_BYTES)


def _is_absent(request: Request) -> bool:
    headers = request.headers
    return "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"
