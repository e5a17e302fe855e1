"""Indexes new revisions in the background, if a prompt that uses them or the service says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from lorewell.app.ports import Transaction
from lorewell.app.rows import PromptRow
from lorewell.app.runtime.new_revisions import NewRevision
from lorewell.app.services import Services
from lorewell.app.vectors.indexing import claim_index
from lorewell.errors import LorewellError

_SECONDS_BETWEEN_LOOKS: Final = 0.2
_MOST_LOOKS: Final = 50  # for a revision whose transaction has not ended yet
_MOST_BUILDS: Final = 4
_MOST_PROMPTS: Final = 1_000


async def follow(services: Services) -> None:
    """Index new revisions until cancelled; a few at a time."""
    places = asyncio.Semaphore(_MOST_BUILDS)
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        for new in services.new_revisions.take():
            await places.acquire()
            job = services.jobs.start(_index(services, new))
            job.add_done_callback(lambda _: places.release())


async def _index(services: Services, new: NewRevision) -> None:
    def look(tx: Transaction) -> bool | None:
        if tx.find_revision(new.tenant_id, new.book_id, new.revision) is None:
            return None
        users = tx.list_prompts(new.tenant_id, limit=_MOST_PROMPTS, book_id=new.book_id)
        return is_wanted(users, of_service=services.auto_index)

    # A failed build is recorded in the state of the index; storage that is away loses this one.
    with suppress(LorewellError):
        wanted = await services.store.read(look)
        if wanted is None and new.looked < _MOST_LOOKS:
            services.new_revisions.add(new._replace(looked=new.looked + 1))
        elif wanted:
            build = await claim_index(services, new.tenant_id, new.book_id, new.revision)
            await build.run()


def is_wanted(users: Sequence[PromptRow], *, of_service: bool) -> bool:
    """Return whether a new revision of a book is indexed.

    Args:
        users: the prompts that use the book. One that asks for it is enough; if all refuse, it is
            not indexed.
        of_service: the setting of the service, for prompts without one of their own.
    """
    asked = [of_service if (own := row.settings.auto_index) is None else own for row in users]
    return any(asked) if asked else of_service
