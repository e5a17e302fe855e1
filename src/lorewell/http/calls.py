"""Authorised requests and answers, shared by the routes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar, cast
from urllib.parse import quote

from fastapi import Depends, Request, Response
from pydantic import BaseModel

from lorewell.app.access import AccessNeed, Rights, authorise
from lorewell.app.imports import UploadedFile
from lorewell.app.ports import Part
from lorewell.app.services import Services
from lorewell.http.bodies import Watch, read_model
from lorewell.http.held import TENANT
from lorewell.http.metrics import Metrics
from lorewell.http.multipart import read_files
from lorewell.http.parameters import TenantId
from lorewell.model import (
    AssembleResponse,
    CreateResult,
    ReplayResponse,
    ReplicaResponse,
    Scope,
    SelectResponse,
    SillyTavernResponse,
)
from lorewell.model.chat_replay import BudgetPlan, ChatReplay, ReplayDiff
from lorewell.settings import Settings

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")

LargeAnswer = (
    SelectResponse
    | SillyTavernResponse
    | ReplicaResponse
    | ReplayResponse
    | AssembleResponse
    | ChatReplay
    | ReplayDiff
    | BudgetPlan
)

JSON = "application/json"
OK, CREATED, ACCEPTED, NO_CONTENT = 200, 201, 202, 204
# Encoding less than this is faster than a round trip to a thread.
_SMALL_LEDGER, _SMALL_CHARS = 1_000, 100_000
_MAX_STEM_CHARS = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(slots=True, kw_only=True)
class AppState:
    """The state that all requests of an application share.

    Attributes:
        check: of the database, while it runs; requests that come meanwhile share it.
    """

    services: Services
    settings: Settings
    metrics: Metrics
    check: asyncio.Task[Part | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An authorised request.

    Attributes:
        tenant_id: the tenant of the books; empty for a request across tenants.
        rights: the rights of its key.
    """

    request: Request
    shared: AppState
    tenant_id: str
    rights: Rights

    @property
    def services(self) -> Services:
        """The services of the use cases."""
        return self.shared.services

    async def need(self, scope: Scope) -> None:
        """Raise an error unless the request has this scope too."""
        await _authorised(self.request, AccessNeed(scope=scope, tenant_id=self.tenant_id))

    async def body(self, model: type[Model]) -> Model:
        """Return the JSON body as a model."""
        return await read_model(self.request, self.shared.settings, model, self._parse)

    async def files(self, field: str, most: int) -> Sequence[UploadedFile]:
        """Return the files of a form."""
        settings = self.shared.settings
        return await read_files(self.request, settings, field, most, compute=self.compute)

    async def compute(self, work: Callable[[], Result]) -> Result:
        """Run work in the compute pool for the tenant, and return its result."""
        return await self.services.computing.run(self.tenant_id, work)

    async def _parse(self, work: Callable[[Watch], Result]) -> Result:
        async with self.services.computing.turn(self.tenant_id) as turn:
            return await turn.run(lambda: work(turn.pause))

    async def finish(self, work: Callable[[], Result]) -> Result:
        """Run the last part of work whose larger part was computed before; return its result."""
        return await self.services.computing.finish(self.tenant_id, work)


def shared(request: Request) -> AppState:
    """Return the shared state of the request's application."""
    return cast("AppState", request.app.state.shared)


async def _authorised(request: Request, need: AccessNeed) -> Call:
    # Before any lookup, and before the body is read.
    common = shared(request)
    rights = await authorise(common.services, request.headers.get("authorization"), need)
    tenant_id = request.scope["state"][TENANT] = need.tenant_id or ""
    return Call(request=request, shared=common, tenant_id=tenant_id, rights=rights)


async def reading(request: Request, tenant_id: TenantId) -> Call:
    """Return the request if it may read the tenant's books."""
    return await _authorised(request, AccessNeed(scope="read", tenant_id=tenant_id))


async def writing(request: Request, tenant_id: TenantId) -> Call:
    """Return the request if it may change the tenant's books."""
    return await _authorised(request, AccessNeed(scope="write", tenant_id=tenant_id))


async def _administering(request: Request) -> Call:
    return await _authorised(request, AccessNeed(scope="admin"))


async def _managing(request: Request) -> Call:
    return await _authorised(request, AccessNeed(scope="tenant_admin", instead="admin"))


async def _measuring(request: Request) -> Call:
    return await _authorised(request, AccessNeed(scope="metrics", instead="admin"))


Reading = Annotated[Call, Depends(reading)]
Writing = Annotated[Call, Depends(writing)]
Administering = Annotated[Call, Depends(_administering)]
Managing = Annotated[Call, Depends(_managing)]
Measuring = Annotated[Call, Depends(_measuring)]


def answer(value: BaseModel, status: int = OK) -> Response:
    """Return a model as JSON."""
    return Response(value.model_dump_json(), status, media_type=JSON)


def answer_json(content: bytes, status: int = OK) -> Response:
    """Return encoded JSON."""
    return Response(content, status, media_type=JSON)


def answer_file(name: str, content: bytes) -> Response:
    """Return JSON as a download named after a book.

    Source: RFC 6266, with an ASCII name and the full one of RFC 8187.
    """
    stem = name[:_MAX_STEM_CHARS]
    ascii_name = _UNSAFE.sub("_", stem)
    full_name = quote("".join(each if each.isprintable() else "_" for each in stem), safe="")
    disposition = f"attachment; filename=\"{ascii_name}.json\"; filename*=UTF-8''{full_name}.json"
    return Response(content, media_type=JSON, headers={"Content-Disposition": disposition})


def answer_created(result: CreateResult) -> Response:
    """Return created books; the status is 200 if all of them existed before."""
    is_new = not result.replayed and not all(book.deduplicated for book in result.books)
    return answer(result, CREATED if is_new else OK)


async def answer_selection(call: Call, response: SelectResponse) -> Response:
    """Return a selection, encoded without an intermediate model."""
    call.shared.metrics.selected(response)
    chars = sum(len(block.content) for block in response.blocks)
    if len(response.decisions) < _SMALL_LEDGER and chars < _SMALL_CHARS:
        return answer_json(response.to_json())
    return await answer_encoded(call, response)


async def answer_encoded(call: Call, response: LargeAnswer) -> Response:
    """Return an answer, encoded without an intermediate model."""
    return answer_json(await call.finish(response.to_json))
