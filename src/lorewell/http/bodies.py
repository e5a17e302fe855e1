"""Request bodies: limits on their size and time while they arrive."""

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
"""Runs work in the compute pool for the request's tenant."""

Watch = Callable[[], None]
WatchedCompute = Callable[[Callable[[Watch], Any]], Awaitable[Any]]
"""The same for work that calls its argument every few milliseconds."""

# Parsing less than this is faster than a round trip to a thread. Many values take long to validate.
_SMALL_BYTES = 32_768
_FEW_VALUES = 1_000
_IN_MEMORY_BYTES = 524_288
_MAX_DIGITS = 18
_LEAST_BYTES_PER_S = 65_536


async def receive_body(
    request: Request, settings: Settings, sink: Callable[[bytes], object]
) -> None:
    """Pass the body on in blocks; all but the last in a thread, as a disk may be slow.

    Args:
        request: the request with the body.
        settings: the limits on its size and time.
        sink: takes the blocks.

    Raises:
        BodyTooLargeError: the body is larger than the limit of its route. No more than the limit
            was read; with a declared length, nothing was.
        RequestTimeoutError: the client sends too slowly.
        OverloadedError: the process holds too many bytes of bodies.
        StorageUnavailableError: there is no disk space to spool the body.
    """
    limit = limit_of(request.scope)
    limit.check(declared_bytes(request.headers), settings)
    hold: Hold = request.scope["state"][BODY]
    received, begin = 0, asyncio.get_running_loop().time()
    block = bytearray()
    try:
        async with asyncio.timeout(settings.body_timeout_s) as patience:
            async for piece in request.stream():
                received += len(piece)
                limit.check(received, settings)
                hold.add(len(piece))
                earned_s = settings.body_timeout_s + received / _LEAST_BYTES_PER_S
                patience.reschedule(begin + earned_s)
                block += piece
                if len(block) > _IN_MEMORY_BYTES:
                    full, block = bytes(block), bytearray()
                    await asyncio.to_thread(sink, full)
            sink(bytes(block))
    except TimeoutError as error:
        raise RequestTimeoutError("The request body did not arrive in time.") from error
    except OSError as error:  # of the spool file's disk
        raise StorageUnavailableError("There is no disk space for the request body.") from error


def declared_bytes(headers: Headers) -> int:
    """Return the declared length of the body; 0 if it is missing or invalid."""
    length = headers.get("content-length", "")
    return int(length[:_MAX_DIGITS]) if length.isascii() and length.isdigit() else 0


def check_media_type(request: Request, wanted: str) -> None:
    """Raise UnsupportedMediaTypeError unless the body has this media type and is not compressed.

    A form on a foreign page can send some media types without a preflight; JSON is not among them.
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
    """Return the JSON body as a model. `compute` parses a large one.

    Raises:
        UnsupportedMediaTypeError: the media type is not JSON.
        BodyTooLargeError, RequestTimeoutError: as `receive_body`.
        MalformedJsonError: the JSON is invalid.
        JsonTooLargeError: the JSON holds more values than the limit.
        ValidationFailedError: the JSON breaks the schema; pointers are into the body.
    """
    _check_json_body(request)
    with spool() as body:
        await receive_body(request, settings, body.write)
        size = body.tell()
        body.seek(0)
        small = body.read() if size < _SMALL_BYTES else None

        def parse(watch: Watch | None = None) -> Model:
            with naming_the_limit(settings):
                data = body.read() if small is None else small
                most = settings.max_json_values
                document = parse_json(data, max_values=most, watch=watch)
            return parse_model(model, document, watch=watch)

        if small is not None and _has_few_values(small):
            return parse()
        parsed: Model = await compute(parse)
        return parsed


def _has_few_values(data: bytes) -> bool:
    return sum(map(data.count, b",:[{")) < _FEW_VALUES


@contextmanager
def naming_the_limit(settings: Settings) -> Iterator[None]:
    """Add the name of the setting to the error for too many values of a JSON document."""
    try:
        yield
    except JsonTooLargeError as error:
        limit, setting = settings.max_json_values, env_name("max_json_values")
        message = f"{str(error).removesuffix('.')}; {setting} sets it."
        raise JsonTooLargeError(message, limit_values=limit) from error


async def read_body(request: Request, settings: Settings) -> bytes:
    """Return the JSON body, unparsed.

    Raises:
        UnsupportedMediaTypeError, BodyTooLargeError, RequestTimeoutError, MalformedJsonError: as
            `read_model`.
    """
    _check_json_body(request)
    with spool() as body:
        await receive_body(request, settings, body.write)
        body.seek(0)
        return body.read()


def _check_json_body(request: Request) -> None:
    if _is_absent(request):
        raise MalformedJsonError("The request has no body; expected a JSON document.")
    check_media_type(request, "application/json")


def spool() -> SpooledTemporaryFile[bytes]:
    """Return a file that is in memory while it is small.

    So any number of incomplete or too large bodies takes little memory.
    """
    return SpooledTemporaryFile(_IN_MEMORY_BYTES)


def _is_absent(request: Request) -> bool:
    headers = request.headers
    return "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"
