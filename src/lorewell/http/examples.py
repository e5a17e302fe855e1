"""Example bodies for the OpenAPI document; each is accepted as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BOOK_ID = "11111111-1111-4111-8111-111111111111"

BOOK: Mapping[str, Any] = {
    "name": "Harbour",
    "entries": [
        {
            "id": "lamp",
            "title": "The lamp",
            "content": "The lamp on the mole burns green since the flood.",
            "keys": ["lamp", "lighthouse"],
        }
    ],
}
SELECT: Mapping[str, Any] = {
    "books": [{"book_id": BOOK_ID}],
    "query": "Who lit the lamp?",
    "history": [{"role": "assistant", "content": "Night falls over the harbour."}],
    "token_budget": 1500,
}
PREVIEW: Mapping[str, Any] = {**SELECT, "books": [{"book": BOOK}]}
SEARCH: Mapping[str, Any] = {"books": [{"book_id": BOOK_ID}], "query": "green lamp"}
