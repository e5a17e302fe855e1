"""Where the ledger of a turn that is kept can be opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from lorewell.model import Policy

_PATHS: Final[Mapping[Policy, str]] = {
    "native": "/v1/selections",
    "sillytavern": "/v1/sillytavern/activations",
    "replica": "/v1/replica/activations",
}


def ledger_path(policy: Policy, tenant_id: str, kept_as: str | None) -> str | None:
    """Return path and query that open a ledger; None if nothing is kept."""
    if kept_as is None:
        return None
    return f"{_PATHS[policy]}/{kept_as}?{urlencode({'tenant_id': tenant_id})}"
