"""Paths of ledgers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from lorewell.app.ledgers import LedgerRef
from lorewell.model import Policy

_PATHS: Final[Mapping[Policy, str]] = {
    "native": "/v1/selections",
    "sillytavern": "/v1/sillytavern/activations",
    "replica": "/v1/replica/activations",
}


def ledger_path(ref: LedgerRef) -> str:
    """Return the path and query that open a ledger."""
    return f"{_PATHS[ref.policy]}/{ref.kept_id}?{urlencode({'tenant_id': ref.tenant_id})}"
