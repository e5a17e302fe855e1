"""Lints a book that is stored, changed, or sent whole."""

from __future__ import annotations

from collections.abc import Sequence

from lorewell.app.changes import apply_changes
from lorewell.app.documents import load_model
from lorewell.app.loaded import check_size, find_rows
from lorewell.app.ports import Transaction
from lorewell.app.rows import RevisionRow
from lorewell.app.services import Services
from lorewell.engine.steps import NO_LIMIT, Steps
from lorewell.errors import Fault, ValidationFailedError
from lorewell.insight.lint import lint, policy_of
from lorewell.insight.lint.linting import PolicyRequest, read_request
from lorewell.model import BookRef, ChangedBook, InlineBook
from lorewell.model.binding import Policy
from lorewell.model.lint import LintAnswer, LintRequest
from lorewell.model.parse import parse_model

_Loaded = tuple[RevisionRow, bytes]


async def lint_book(services: Services, tenant_id: str, request: LintRequest) -> LintAnswer:
    """Return the findings of a book; nothing is stored.

    Stored books that the given request names are compared with it.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a stored book or revision is missing.
        SnapshotTooLargeError: the books are too large in total.
        ValidationFailedError: a change does not fit its book, the given request is not one of the
            policy, or a code is unknown.
        TooExpensiveError: it needs too much work.
    """
    refs = _refs(request)

    def load(tx: Transaction) -> list[_Loaded]:
        rows = find_rows(tx, tenant_id, refs)
        entries = sum(row.entry_count for row in rows)
        check_size(services.limits, entries=entries, chars=0)
        return [(row, tx.get_content(row.tenant_id, row.content_hash)) for row in rows]

    async with services.computing.long_turn(tenant_id) as turn:
        loaded = await services.store.read(load)
        return await turn.run(lambda: _answer(services, request, loaded, turn.new_steps(NO_LIMIT)))


def _refs(request: LintRequest) -> list[BookRef]:
    """Return the stored books that are needed, the linted one first."""
    item = request.book
    own = [] if isinstance(item, InlineBook) else [_ref(item.book_id, item.revision)]
    listed = (request.request or {}).get("books")
    others = [
        _ref(each["book_id"], each.get("revision"))
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and isinstance(each.get("book_id"), str)
    ]
    seen = {ref.book_id for ref in own}
    return own + [ref for ref in others if ref.book_id not in seen]


def _ref(book_id: str, revision: object) -> BookRef:
    try:
        return parse_model(BookRef, {"book_id": book_id, "revision": revision})
    except ValidationFailedError as error:
        raise error.moved(lambda fault: Fault("/with/books", fault.detail)) from error


def _answer(
    services: Services, request: LintRequest, loaded: Sequence[_Loaded], steps: Steps
) -> LintAnswer:
    books = [load_model(content, watch=steps.watch) for _, content in loaded]
    item = request.book
    if isinstance(item, InlineBook):
        book, others = item.book, books
    else:
        stored, *others = books
        book = apply_changes(stored, item, "book") if isinstance(item, ChangedBook) else stored
    policy = policy_of(book, request.policy)
    found = lint(
        book,
        policy=policy,
        request=_given(request, policy),
        others=others,
        select=request.select,
        counter=services.counter,
        steps=steps,
    )
    # Not validated: these values are valid, and there may be many.
    return LintAnswer.model_construct(policy=policy, findings=found)


def _given(request: LintRequest, policy: Policy) -> PolicyRequest | None:
    if request.request is None:
        return None
    document = {name: value for name, value in request.request.items() if name != "books"}
    try:
        return read_request(policy, document)
    except ValidationFailedError as error:
        raise error.moved(lambda fault: Fault(f"/with{fault.pointer}", fault.detail)) from error
