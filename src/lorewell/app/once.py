"""Idempotent requests: a repeated request returns the first result (§12)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lorewell.app.ports import Transaction
from lorewell.errors import Fault, IdempotencyConflictError, ValidationFailedError
from lorewell.model import CreateResult, Published
from lorewell.model.text import canonical_json

Result = TypeVar("Result", CreateResult, Published)

MAX_KEY_CHARS = 200
CREATED = 201


def check_key(key: str | None) -> str | None:
    """Return the key if it is 1 to 200 printable ASCII characters.

    Raises:
        ValidationFailedError: it is not.
    """
    if key is None or (1 <= len(key) <= MAX_KEY_CHARS and key.isascii() and key.isprintable()):
        return key
    fault = Fault("", "must be 1 to 200 printable ASCII characters", parameter="Idempotency-Key")
    raise ValidationFailedError.at(fault)


def request_hash(*content: object) -> str:
    """Return a hash that is equal for equal requests."""
    return hashlib.sha256(canonical_json(content)).hexdigest()


@dataclass(frozen=True, slots=True)
class Claim:
    """A request under an idempotency key; without a key (None) it simply runs."""

    tenant_id: str
    key: str | None
    request_hash: str


def once(
    tx: Transaction, claim: Claim, model: type[Result], work: Callable[[Transaction], Result]
) -> Result:
    """Run `work`, or return the earlier result of the same request, marked as replayed.

    Raises:
        IdempotencyConflictError: the key was used for another request.
    """
    if claim.key is None:
        return work(tx)
    before = tx.claim(claim.tenant_id, claim.key, claim.request_hash)
    if before is None:
        result = work(tx)
        response = result.model_dump_json().encode()
        tx.settle(claim.tenant_id, claim.key, status=CREATED, response=response)
        return result
    if before.request_hash != claim.request_hash:
        message = "This idempotency key was used for another request. Use a new key."
        raise IdempotencyConflictError(message)
    return model.model_validate_json(before.response).model_copy(update={"replayed": True})
