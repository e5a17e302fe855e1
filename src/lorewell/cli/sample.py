"""The sample tenant of `lorewell serve --sample`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lorewell.app.bindings import put_bindings
from lorewell.app.books import create_books
from lorewell.app.services import Services
from lorewell.bootstrap import build_services, start, stop
from lorewell.errors import IdempotencyConflictError
from lorewell.formats import open_book
from lorewell.model import Binding, BindingsPut
from lorewell.settings import Settings

TENANT = "sample"
PROMPT = "sample"
_HEADER = "content-type: application/json"
_TURN = {
    "query": "Who takes us past the wreck, the pilot? 船家，今晚能去对岸的灯塔吗？",
    "template_vars": {"user": "Ash"},
    "explain": "selected",
}


def sample_id(number: int) -> str:
    """Return the fixed id of the sample book with this number, counted from 1."""
    return f"00000000-0000-4000-8000-{number:012}"


async def store_samples(settings: Settings, files: Sequence[Path]) -> None:
    """Store the books of these files for the sample tenant, unless they exist already.

    They are bound to the prompt `sample`, in the given order.

    Raises:
        LorewellError: a file does not hold a book, or the database can't be used.
    """
    services = build_services(settings)
    try:
        await start(services)
        for number, file in enumerate(files, start=1):
            await _store(services, sample_id(number), file)
        bindings = tuple(Binding(book_id=sample_id(n + 1), position=n) for n in range(len(files)))
        await put_bindings(services, TENANT, PROMPT, BindingsPut(bindings=bindings))
    finally:
        await stop(services)


async def _store(services: Services, book_id: str, file: Path) -> None:
    named = replace(services, new_id=lambda: book_id)
    book = open_book(file).book
    # The idempotency key makes a second start find the book instead of storing it again. A book
    # whose file has changed since stays as it is.
    with suppress(IdempotencyConflictError):
        await create_books(named, TENANT, [book], route="sample", key=f"sample {book_id}")


def curl_examples(settings: Settings, count: int) -> list[str]:
    """Return `curl` commands for the sample tenant."""
    address = f"http://{settings.host}:{settings.port}"
    books = [{"book_id": sample_id(number + 1)} for number in range(count)]
    turn = json.dumps({"books": books, **_TURN}, ensure_ascii=False)
    resolve = f"{address}/v1/prompt-bindings/resolve?tenant_id={TENANT}&prompt_id={PROMPT}"
    select = f"{address}/v1/context/select?tenant_id={TENANT}"
    return [
        shlex.join(["curl", f"{address}/v1/books?tenant_id={TENANT}"]),
        shlex.join(["curl", resolve]),
        shlex.join(["curl", "-H", _HEADER, "-d", turn, select]),
    ]
