"""Idempotent requests: what was done once under a key is told again, not done again (§12)."""

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
    """Return the key, which is 1 to 200 printable ASCII characters.

    Raises:
        ValidationFailedError: it is not.
    """
    if key is None or (1 <= len(key) <= MAX_KEY_CHARS and key.isascii() and key.isprintable()):
        return key
    fault = Fault("", "must be 1 to 200 printable ASCII characters", parameter="Idempotency-Key")
    raise ValidationFailedError.at(fault)


def hash_of(*content: object) -> str:
    """Return what two requests share exactly when they ask for the same."""
    return hashlib.sha256(canonical_json(content)).hexdigest()


@dataclass(frozen=True, slots=True)
class Claim:
    """Whose request it is, under which key (None: it just runs), and what it asks for."""

    tenant_id: str
    key: str | None
    request_hash: str


def once(
    tx: Transaction, claim: Claim, model: type[Result], work: Callable[[Transaction], Result]
) -> Result:
    """Run `work`, or return what the same request gave before, marked as replayed.

    Raises:
        IdempotencyConflictError: the key stands for another request.
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
        message = "This idempotency key was used for another request; take a new one."
        raise IdempotencyConflictError(message)
    return model.model_validate_json(before.response).model_copy(update={"replayed": True})
