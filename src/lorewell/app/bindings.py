"""The books of prompts: store, read and resolve bindings (§6, §12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lorewell.app.books import find_heads, head_in, no_revision
from lorewell.app.ports import Transaction
from lorewell.app.rows import HeadRow, RevisionRow, StoredBindings
from lorewell.app.services import Services
from lorewell.errors import BindingInvalidError, PolicyMismatchError
from lorewell.model import Binding, BindingSet, BindingsPut, BookRef, Policy, ResolvedBindings

_UNBOUND = StoredBindings(policy="auto", bindings=())


async def put_bindings(
    services: Services, tenant_id: str, prompt_id: str, request: BindingsPut
) -> BindingSet:
    """Replace all bindings of a prompt.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a binding, even a disabled one, names a missing
            book or revision.
    """

    def work(tx: Transaction) -> None:
        heads = find_heads(tx, tenant_id, [binding.book_id for binding in request.bindings])
        for index, binding in enumerate(request.bindings):
            _check_binding(tx, tenant_id, heads, binding, index)
        stored = StoredBindings(policy=request.policy, bindings=request.bindings)
        tx.put_bindings(tenant_id, prompt_id, stored)

    await services.store.write(work)
    return BindingSet(
        tenant_id=tenant_id, prompt_id=prompt_id, policy=request.policy, bindings=request.bindings
    )


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
        tenant_id=tenant_id, prompt_id=prompt_id, policy=stored.policy, bindings=stored.bindings
    )


async def resolve(services: Services, tenant_id: str, prompt_id: str) -> ResolvedBindings:
    """Return the revisions that a prompt uses now, in order, and their policy.

    Raises:
        BindingInvalidError: an enabled binding names a missing book or revision.
    """
    policy, rows = await services.store.read(lambda tx: find_bound(tx, tenant_id, prompt_id))
    return ResolvedBindings(
        tenant_id=tenant_id,
        prompt_id=prompt_id,
        policy=policy,
        books=tuple(BookRef(book_id=row.book_id, revision=row.revision) for row in rows),
    )


def find_bound(
    tx: Transaction, tenant_id: str, prompt_id: str
) -> tuple[Policy, Sequence[RevisionRow]]:
    """Return the policy of a prompt and the revisions that it uses now, in order.

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
    return _policy(stored, found), found


def find_bound_under(
    tx: Transaction, tenant_id: str, prompt_id: str, policy: Policy
) -> Sequence[RevisionRow]:
    """Return the revisions that a prompt uses now, in order, if they run under `policy`.

    Raises:
        BindingInvalidError: an enabled binding names a missing book or revision.
        PolicyMismatchError: they run under another policy.
    """
    actual, rows = find_bound(tx, tenant_id, prompt_id)
    if rows and actual != policy:
        message = f"The books of the prompt {prompt_id!r} run under the policy {actual}."
        raise PolicyMismatchError(message, prompt_id=prompt_id, policy=actual)
    return rows


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
