"""Worlds of SillyTavern_replica in a service: stored and bound."""

from __future__ import annotations

import json
from collections.abc import Sequence

from service import Api, Json


def keep(api: Api, entries: Sequence[Json], name: str = "雾隐渡") -> str:
    """Store a world of that program and return its id."""
    world = {"name": name, "entries": list(entries)}
    file = (f"{name}.json", json.dumps(world).encode())
    answer = api("POST", "/v1/imports/files", files=[("files", file)])
    assert answer.status_code == 201, answer.text
    return str(answer.json()["books"][0]["book_id"])


def bind(api: Api, prompt_id: str, *book_ids: str, policy: str = "replica") -> None:
    """Set which books a prompt uses, and by whose rules."""
    bindings = [{"book_id": book_id} for book_id in book_ids]
    body = {"bindings": bindings, "policy": policy}
    answer = api("PUT", "/v1/prompt-bindings", params={"prompt_id": prompt_id}, json=body)
    assert answer.status_code == 200, answer.text
