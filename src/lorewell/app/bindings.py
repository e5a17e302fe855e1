"""The books of prompts: store, read and resolve bindings (§6, §12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lorewell.app.books import find_heads, get_head, head_in, no_revision
from lorewell.app.pages import PageRequest, cut_page
from lorewell.app.ports import Transaction
from lorewell.app.rows import HeadRow, PromptRow, RevisionRow, StoredBindings
from lorewell.app.services import Services
from lorewell.app.tokens import choose_counter
from lorewell.errors import BindingInvalidError, PolicyMismatchError
from lorewell.model import Binding, BindingSet, BindingsPut, Policy, ResolvedBindings
from lorewell.model.activate import BookSource
from lorewell.model.binding import BoundBook, PromptInfo, PromptPage
from lorewell.model.faults import faults_below
from lorewell.model.prompt_settings import NO_SETTINGS, PromptSettings

_UNBOUND = StoredBindings(policy="auto", bindings=())


async def put_bindings(
    services: Services, tenant_id: str, prompt_id: str, request: BindingsPut
) -> BindingSet:
    """Replace all bindings of a prompt.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a binding, even a disabled one, names a missing
            book or revision.
        ValidationFailedError: the service has no such tokenizer as the settings name.
    """
    await _check_tokenizers(services, tenant_id, request.settings)

    def work(tx: Transaction) -> None:
        heads = find_heads(tx, tenant_id, [binding.book_id for binding in request.bindings])
        for index, binding in enumerate(request.bindings):
            _check_binding(tx, tenant_id, heads, binding, index)
        stored = StoredBindings(
            policy=request.policy, bindings=request.bindings, settings=request.settings
        )
        tx.put_bindings(tenant_id, prompt_id, stored)

    await services.store.write(work)
    return BindingSet(
        tenant_id=tenant_id,
        prompt_id=prompt_id,
        policy=request.policy,
        bindings=request.bindings,
        settings=request.settings,
    )


async def _check_tokenizers(services: Services, tenant_id: str, settings: PromptSettings) -> None:
    scene = settings.scene
    named = {
        "/settings/sillytavern": settings.sillytavern.tokenizer,
        "/settings/scene": None if scene is None else scene.tokenizer,
    }
    for at, name in named.items():
        with faults_below(at):
            await choose_counter(services, tenant_id, name)


def _check_binding(
    tx: Transaction, tenant_id: str, heads: Mapping[str, HeadRow], binding: Binding, index: int
) -> None:
    head = head_in(heads, binding.book_id)
    revision = binding.revision
    if revision is None or revision == head.latest_revision:
        return
    if revision > head.latest_revision or not tx.find_revision(tenant_id, head.book_id, revision):
        raise no_revision(head, revision, "bindings", index, "revision")


async def get_bindings(services: Services, tenant_id: str, prompt_id: str) -> BindingSet:
    """Return a prompt's bindings as stored, including disabled ones."""
    stored = (
        await services.store.read(lambda tx: tx.find_bindings(tenant_id, prompt_id)) or _UNBOUND
    )
    return BindingSet(
        tenant_id=tenant_id,
        prompt_id=prompt_id,
        policy=stored.policy,
        bindings=stored.bindings,
        settings=stored.settings,
    )


async def list_prompts(
    services: Services, tenant_id: str, page: PageRequest, *, book_id: str | None = None
) -> PromptPage:
    """Return the prompts that use books, by name; with a book, those that use it.

    Raises:
        BookNotFoundError: there is no such book.
    """

    def load(tx: Transaction) -> Sequence[PromptRow]:
        book = None if book_id is None else get_head(tx, tenant_id, book_id).book_id
        return tx.list_prompts(tenant_id, limit=page.limit + 1, after=page.cursor, book_id=book)

    shown, next_cursor = cut_page(await services.store.read(load), page, lambda row: row.prompt_id)
    prompts = (
        PromptInfo(prompt_id=row.prompt_id, policy=row.policy, book_count=row.book_count)
        for row in shown
    )
    return PromptPage(prompts=tuple(prompts), next_cursor=next_cursor)


async def settings_of(services: Services, tenant_id: str, prompt_id: str | None) -> PromptSettings:
    """Return the settings of a prompt; none without a prompt."""
    if prompt_id is None:
        return NO_SETTINGS
    return (await get_bindings(services, tenant_id, prompt_id)).settings


async def resolve(services: Services, tenant_id: str, prompt_id: str) -> ResolvedBindings:
    """Return the revisions that a prompt uses now, in order, and their policy.

    Raises:
        BindingInvalidError: an enabled binding names a missing book or revision.
    """
    bound = await services.store.read(lambda tx: find_bound(tx, tenant_id, prompt_id))
    return ResolvedBindings(
        tenant_id=tenant_id,
        prompt_id=prompt_id,
        policy=bound.policy,
        books=bound.books,
        settings=bound.settings,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The books that a prompt uses now, in order, and how.

    Attributes:
        rows: their revisions.
        sources: what each of them counts as.
    """

    policy: Policy
    rows: Sequence[RevisionRow]
    sources: Sequence[BookSource]
    settings: PromptSettings

    @property
    def books(self) -> tuple[BoundBook, ...]:
        """The revisions with their sources."""
        return tuple(
            BoundBook(book_id=row.book_id, revision=row.revision, source=source)
            for row, source in zip(self.rows, self.sources, strict=True)
        )


def find_bound(tx: Transaction, tenant_id: str, prompt_id: str) -> Bound:
    """Return the books that a prompt uses now, in order, with their policy and settings.

    Raises:
        BindingInvalidError: an enabled binding names a missing book or revision.
    """
    stored = tx.find_bindings(tenant_id, prompt_id) or _UNBOUND
    used = [binding for binding in stored.bindings if binding.enabled]
    used.sort(key=lambda binding: binding.position)
    heads = find_heads(tx, tenant_id, [binding.book_id for binding in used])
    rows = [_find_revision(tx, heads.get(binding.book_id), binding) for binding in used]
    missing = [
        {"book_id": binding.book_id, "revision": binding.revision}
        for binding, row in zip(used, rows, strict=True)
        if row is None
    ]
    if missing:
        message = "A binding names a missing book or revision."
        raise BindingInvalidError(message, bindings=missing)
    found = [row for row in rows if row is not None]
    return Bound(
        policy=_policy(stored, found),
        rows=found,
        sources=[binding.source for binding in used],
        settings=stored.settings,
    )


def find_bound_under(tx: Transaction, tenant_id: str, prompt_id: str, policy: Policy) -> Bound:
    """Return the books that a prompt uses now, in order, if they run under `policy`.

    Raises:
        BindingInvalidError: an enabled binding names a missing book or revision.
        PolicyMismatchError: they run under another policy.
    """
    bound = find_bound(tx, tenant_id, prompt_id)
    if bound.rows and bound.policy != policy:
        message = f"The books of the prompt {prompt_id!r} run under the policy {bound.policy}."
        raise PolicyMismatchError(message, prompt_id=prompt_id, policy=bound.policy)
    return bound


def _find_revision(tx: Transaction, head: HeadRow | None, binding: Binding) -> RevisionRow | None:
    if head is None:
        return None
    revision = head.latest_revision if binding.revision is None else binding.revision
    return tx.find_revision(head.tenant_id, head.book_id, revision)


def _policy(stored: StoredBindings, rows: Sequence[RevisionRow]) -> Policy:
    """Return the policy that all books of the prompt run under."""
    if stored.policy != "auto":
        return stored.policy
    return "sillytavern" if any(row.origin == "sillytavern" for row in rows) else "native"
