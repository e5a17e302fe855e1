"""Vector indexes of revisions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse

from lorewell.app.pages import PageRequest
from lorewell.app.vectors.indexing import claim_index, index_state, list_indexes as list_page
from lorewell.errors import (
    BookNotFoundError,
    EmbeddingUnavailableError,
    IndexBusyError,
    LorewellError,
    RevisionNotFoundError,
    VectorDisabledError,
)
from lorewell.http.calls import ACCEPTED, OK, Call, Reading, Writing, answer
from lorewell.http.events import MEDIA_TYPE, QUIET_SECONDS, STILL_HERE, event
from lorewell.http.limits import SMALL
from lorewell.http.openapi import documented, json_body, json_or_events
from lorewell.http.parameters import Background, BookId, Cursor, Limit, Revision, Stale
from lorewell.http.problems import problem_of
from lorewell.model.index import IndexBuilt, IndexPage, IndexRequest, IndexState

TAG = "index"
Progress = asyncio.Queue[tuple[int, int] | None]
"""(chunks done, all chunks); None at the end."""

_PROBLEMS = (BookNotFoundError, RevisionNotFoundError)

router = APIRouter()


@router.post(
    "/v1/books/{book_id}/index",
    **documented(
        *_PROBLEMS,
        VectorDisabledError,
        IndexBusyError,
        EmbeddingUnavailableError,
        gives={OK: json_or_events(IndexBuilt), ACCEPTED: IndexBuilt},
        takes=json_body(IndexRequest, {"revision": 1}, SMALL),
    ),
)
async def build_index(
    call: Writing, book_id: BookId, *, background: Background = False
) -> Response:
    """Build the index of a revision, unless it is ready already.

    If the request accepts events, the answer is a stream of them: `progress` with `done` and
    `total` chunks, and in the end `index` with the usual answer, or `problem`.
    """
    request = await call.body(IndexRequest)
    build = await claim_index(
        call.services, call.tenant_id, book_id, request.revision, force=request.force
    )
    if background:
        if not build.reused:
            build.start()
        return answer(build.state, OK if build.reused else ACCEPTED)
    if MEDIA_TYPE in call.request.headers.get("accept", ""):
        # The build starts before the client reads, and goes on if the client leaves.
        progress_queue: Progress = asyncio.Queue()
        running = build.start(lambda done, total: progress_queue.put_nowait((done, total)))
        running.add_done_callback(lambda _: progress_queue.put_nowait(None))
        return StreamingResponse(_events(call, running, progress_queue), media_type=MEDIA_TYPE)
    return answer(await build.run())


async def _events(
    call: Call, running: asyncio.Task[IndexBuilt], progress_queue: Progress
) -> AsyncIterator[bytes]:
    """Yield the progress of a build, and its result."""
    while True:
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                progress = await progress_queue.get()
        except TimeoutError:
            yield STILL_HERE
            continue
        if progress is None:
            break
        done, total = progress
        yield event("progress", json.dumps({"done": done, "total": total}))
    try:
        yield event("index", (await running).model_dump_json())
    except LorewellError as error:
        problem = problem_of(error, call.request.state.request_id)
        yield event("problem", json.dumps(problem))


@router.get("/v1/books/{book_id}/index", **documented(*_PROBLEMS, gives={OK: IndexState}))
async def get_index(call: Reading, book_id: BookId, revision: Revision = None) -> Response:
    """Return the state of a revision's index, by default of the latest revision."""
    return answer(await index_state(call.services, call.tenant_id, book_id, revision))


@router.get("/v1/indexes", **documented(VectorDisabledError, gives={OK: IndexPage}))
async def list_indexes(
    call: Reading, limit: Limit = 50, cursor: Cursor = None, *, stale: Stale = False
) -> Response:
    """Return the indexes of each book's latest revision, and of revisions that bindings name."""
    page = PageRequest(limit=limit, cursor=cursor)
    return answer(await list_page(call.services, call.tenant_id, page, stale=stale))
