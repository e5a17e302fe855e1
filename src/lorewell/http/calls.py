"""What the routes share: an authorised request, and answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar, cast
from urllib.parse import quote

from fastapi import Depends, Request, Response
from pydantic import BaseModel

from lorewell.app.access import AccessNeed, Rights, authorise
from lorewell.app.imports import UploadedFile
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
from lorewell.settings import Settings

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")

Written = SelectResponse | SillyTavernResponse | ReplicaResponse | ReplayResponse | AssembleResponse

JSON = "application/json"
OK, CREATED, ACCEPTED, NO_CONTENT = 200, 201, 202, 204
# Encoding less than this takes less time than to hand it to a thread and back.
_SMALL_LEDGER, _SMALL_CHARS = 1_000, 100_000
_MAX_STEM_CHARS = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppState:
    """What all requests of an application share."""

    services: Services
    settings: Settings
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that may do what it asks for.

    Attributes:
        tenant_id: whose books it is about; empty where it crosses tenants.
        rights: what its key allows.
    """

    request: Request
    shared: AppState
    tenant_id: str
    rights: Rights

    @property
    def services(self) -> Services:
        """What the use cases work with."""
        return self.shared.services

    async def need(self, scope: Scope) -> None:
        """Refuse the request unless it may do this too."""
        await _allowed(self.request, AccessNeed(scope=scope, tenant_id=self.tenant_id))

    async def body(self, model: type[Model]) -> Model:
        """Return the JSON body as a model."""
        return await read_model(self.request, self.shared.settings, model, self._parse)

    async def files(self, field: str, most: int) -> Sequence[UploadedFile]:
        """Return the files of a form."""
        settings = self.shared.settings
        return await read_files(self.request, settings, field, most, compute=self.compute)

    async def compute(self, work: Callable[[], Result]) -> Result:
        """Return what the work returns, done in the compute pool on behalf of the tenant."""
        return await self.services.computing.run(self.tenant_id, work)

    async def _parse(self, work: Callable[[Watch], Result]) -> Result:
        async with self.services.computing.turn(self.tenant_id) as turn:
            return await turn.run(lambda: work(turn.pause))

    async def finish(self, work: Callable[[], Result]) -> Result:
        """Return what the end of the work returns, whose larger part was computed before."""
        return await self.services.computing.finish(self.tenant_id, work)


def shared(request: Request) -> AppState:
    """Return what the request's application shares."""
    return cast("AppState", request.app.state.shared)


async def _allowed(request: Request, need: AccessNeed) -> Call:
    # Before anything is looked up, and before any of the body is read.
    common = shared(request)
    rights = await authorise(common.services, request.headers.get("authorization"), need)
    tenant_id = request.scope["state"][TENANT] = need.tenant_id or ""
    return Call(request=request, shared=common, tenant_id=tenant_id, rights=rights)


async def reading(request: Request, tenant_id: TenantId) -> Call:
    """Return the request if it may read the tenant's books."""
    return await _allowed(request, AccessNeed(scope="read", tenant_id=tenant_id))


async def writing(request: Request, tenant_id: TenantId) -> Call:
    """Return the request if it may change the tenant's books."""
    return await _allowed(request, AccessNeed(scope="write", tenant_id=tenant_id))


async def _administering(request: Request) -> Call:
    return await _allowed(request, AccessNeed(scope="admin"))


async def _managing(request: Request) -> Call:
    return await _allowed(request, AccessNeed(scope="tenant_admin", instead="admin"))


async def _measuring(request: Request) -> Call:
    return await _allowed(request, AccessNeed(scope="metrics", instead="admin"))


Reading = Annotated[Call, Depends(reading)]
Writing = Annotated[Call, Depends(writing)]
Administering = Annotated[Call, Depends(_administering)]
Managing = Annotated[Call, Depends(_managing)]
Measuring = Annotated[Call, Depends(_measuring)]


def answer(value: BaseModel, status: int = OK) -> Response:
    """Return a model as JSON."""
    return Response(value.model_dump_json(), status, media_type=JSON)


def answer_json(content: bytes, status: int = OK) -> Response:
    """Return JSON that is written already."""
    return Response(content, status, media_type=JSON)


def answer_file(name: str, content: bytes) -> Response:
    """Return JSON as a file to be saved, named after a book.

    Source: RFC 6266, with a plain name beside the whole one of RFC 8187.
    """
    stem = name[:_MAX_STEM_CHARS]
    plain = _UNSAFE.sub("_", stem)
    whole = quote("".join(each if each.isprintable() else "_" for each in stem), safe="")
    told = f"attachment; filename=\"{plain}.json\"; filename*=UTF-8''{whole}.json"
    return Response(content, media_type=JSON, headers={"Content-Disposition": told})


def answer_created(result: CreateResult) -> Response:
    """Return what was created: 200 where nothing was, because all was there before."""
    is_new = not result.replayed and not all(book.deduplicated for book in result.books)
    return answer(result, CREATED if is_new else OK)


async def answer_selection(call: Call, response: SelectResponse) -> Response:
    """Return a selection, encoded straight from its values."""
    call.shared.metrics.selected(response)
    chars = sum(len(block.content) for block in response.blocks)
    if len(response.decisions) < _SMALL_LEDGER and chars < _SMALL_CHARS:
        return answer_json(response.to_json())
    return await answer_written(call, response)


async def answer_written(call: Call, response: Written) -> Response:
    """Return what is encoded straight from its values."""
    return answer_json(await call.finish(response.to_json))
