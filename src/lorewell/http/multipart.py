"""Files of a multipart form, with limits while they arrive."""

from __future__ import annotations

import re
from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from lorewell.app.imports import UploadedFile
from lorewell.errors import (
    BatchTooLargeError,
    Fault,
    FileTooLargeError,
    MalformedMultipartError,
    ValidationFailedError,
)
from lorewell.http.bodies import Compute, check_media_type, receive_body, spool
from lorewell.model.text import pointer
from lorewell.settings import Settings, env_name

if TYPE_CHECKING:  # it exists only for type checkers
    from python_multipart.multipart import MultipartCallbacks

MEDIA_TYPE = "multipart/form-data"
_MAX_NAME_CHARS = 255
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


async def read_files(
    request: Request, settings: Settings, field: str, most: int, *, compute: Compute
) -> list[UploadedFile]:
    """Return the files of a form with one field, in order.

    Args:
        request: the request.
        settings: the limits on a file and on all files.
        field: the name of the field.
        most: the largest number of files; at least one is required.
        compute: reads the received files.

    Raises:
        UnsupportedMediaTypeError: the media type is not that of a form.
        FileTooLargeError, BatchTooLargeError, BodyTooLargeError: a limit is exceeded; nothing
            beyond it was read.
        RequestTimeoutError: the client sends too slowly.
        MalformedMultipartError: the form is invalid, or ends early.
        ValidationFailedError: there is another field, no file, or too many files.
    """
    check_media_type(request, MEDIA_TYPE)
    _, options = parse_options_header(request.headers["content-type"])
    with ExitStack() as resources:
        form = _Form(settings, field, most, resources)
        try:
            parser = MultipartParser(options.get(b"boundary", b""), form.callbacks)
            await receive_body(request, settings, parser.write)
        except FormParserError as error:
            raise MalformedMultipartError(f"Invalid multipart form: {error}.") from error
        files: list[UploadedFile] = await compute(form.finish)
        return files


class _Form:
    """Collects files from the events of the parser."""

    def __init__(self, settings: Settings, field: str, most: int, resources: ExitStack) -> None:
        self._settings, self._field, self._most = settings, field, most
        self._resources = resources
        self._files: list[tuple[str, SpooledTemporaryFile[bytes]]] = []
        self._total_bytes = 0
        self._header: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._disposition = b""
        self._is_complete = False

    @property
    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_file,
            "on_part_data": self._add,
            "on_end": self._end,
        }

    def finish(self) -> list[UploadedFile]:
        if not self._is_complete:
            raise MalformedMultipartError("The multipart form ends early.")
        if not self._files:
            raise _fault(self._field, "must be given")
        return [UploadedFile(name=name, data=_read(content)) for name, content in self._files]

    def _begin_part(self) -> None:
        self._disposition = b""

    def _end_header(self) -> None:
        name, value = self._header
        if bytes(name).lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = (bytearray(), bytearray())

    def _begin_file(self) -> None:
        kind, options = parse_options_header(self._disposition)
        if kind != b"form-data" or b"name" not in options:
            raise MalformedMultipartError("A part of the multipart form has no name.")
        name = options[b"name"].decode(errors="replace")
        if name != self._field:
            raise _fault(name, "unknown field")
        if len(self._files) == self._most:
            raise _fault(name, f"must not be given more than {self._most} times")
        content = self._resources.enter_context(spool())
        self._files.append((_shown_name(options.get(b"filename", b"")), content))

    def _add(self, data: bytes, start: int, end: int) -> None:
        name, content = self._files[-1]
        limit, limit_all = self._settings.max_file_bytes, self._settings.max_files_bytes
        self._total_bytes += end - start
        if content.tell() + end - start > limit:
            raise FileTooLargeError(
                f"{name or 'The file'} is larger than {limit} bytes, the limit for one file; "
                f"{env_name('max_file_bytes')} sets it.",
                file=name,
                limit_bytes=limit,
            )
        if self._total_bytes > limit_all:
            raise BatchTooLargeError(
                f"All files together are larger than {limit_all} bytes, the limit; "
                f"{env_name('max_files_bytes')} sets it.",
                limit_bytes=limit_all,
            )
        content.write(memoryview(data)[start:end])

    def _end(self) -> None:
        self._is_complete = True


def _read(file: SpooledTemporaryFile[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _shown_name(raw: bytes) -> str:
    """Return a file's name without folders and control characters."""
    name = re.split(r"[/\\]", raw.decode(errors="replace"))[-1]
    return _CONTROLS.sub("\ufffd", name)[:_MAX_NAME_CHARS]


def _fault(field: str, detail: str) -> ValidationFailedError:
    fault = Fault(pointer(field), detail)
    return ValidationFailedError.at(fault)
