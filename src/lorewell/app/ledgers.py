"""The name of a kept turn, by which its ledger can be opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from lorewell.model import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRef:
    """A kept turn: its policy, its tenant, and its id among the kept turns of that tenant."""

    policy: Policy
    tenant_id: str
    kept_id: str

    @classmethod
    def of(cls, policy: Policy, tenant_id: str, kept_id: str | None) -> Self | None:
        """Return the reference; None if the turn is not kept."""
        if kept_id is None:
            return None
        return cls(policy=policy, tenant_id=tenant_id, kept_id=kept_id)
