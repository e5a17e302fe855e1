"""What fuzzing found, in the smallest form: each file is refused in words or gives a whole book."""

from __future__ import annotations

import json

import pytest

from deep.fuzzing.invariants import check
from support import Document

LONG = "名" * 201
FINDINGS = {
    "broken character one byte behind a byte order mark": "\ufeff1灯".encode()[:-1],
    "broken character two bytes behind it": b"\xef\xbb\xbf{[\xff",
    "entries that are not the book's": {"gamestarted": True, "entries": "灯"},
    "card without a book whose long name is cut": {"name": "О" * 301, "first_mes": ""},
    "card with a book that has no name of its own": {
        "spec": "chara_card_v3",
        "data": {"name": "О" * 301, "character_book": {"entries": []}},
    },
    "trigger that lacks its settings": {
        "entries": [{"trigger_config": {"triggers": {"condition": [True], "rag": [True]}}}]
    },
    "template below a very long name": {"entries": [{"keys": [], "x": {LONG: ["<% 灯 %>"]}}]},
    "template very far down": {
        "entries": [{"keys": [], LONG[:99]: {LONG[:150]: {LONG[:151]: {LONG[:152]: "<% %>"}}}}]
    },
    "id behind what can be none": {"entries": [{"keys": [], "uid": ["灯"], "id": "a\x01"}]},
}


@pytest.mark.parametrize("data", FINDINGS.values(), ids=FINDINGS)
def test_file_breaks_nothing(data: bytes | Document) -> None:
    check(data if isinstance(data, bytes) else json.dumps(data).encode())
