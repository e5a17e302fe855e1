"""Example bodies for the OpenAPI document. All of them are valid."""

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
EXPLAIN: Mapping[str, Any] = {"request": PREVIEW, "entry": "lamp", "budget": 100_000}
LINT: Mapping[str, Any] = {
    "book": {"book": BOOK},
    "policy": "native",
    "with": {"token_budget": 900},
}
SEARCH: Mapping[str, Any] = {"books": [{"book_id": BOOK_ID}], "query": "green lamp"}
CONVERSATION_ID = "mira-1"
_LAMP: Mapping[str, Any] = {
    "uid": 0,
    "key": ["lamp"],
    "content": "{{char}} keeps the lamp burning for {{user}}.",
    "sticky": 3,
}
_WORLD: Mapping[str, Any] = {"source": "chat", "name": "Harbour", "entries": {"0": _LAMP}}
SCENE: Mapping[str, Any] = {
    "books": [_WORLD],
    "chat": [
        {"name": "Mira", "content": "Night falls over the harbour."},
        {"name": "Ann", "content": "Who lit the lamp?"},
    ],
    "macros": {"user": "Ann", "char": "Mira"},
    "context_tokens": 8192,
}
ACTIVATE: Mapping[str, Any] = {**SCENE, "conversation_id": CONVERSATION_ID}
ACTIVATE_PREVIEW: Mapping[str, Any] = {**SCENE, "books": [_WORLD, {"book": BOOK}]}
ACTIVATE_EXPLAIN: Mapping[str, Any] = {"request": SCENE, "entry": "Harbour.0", "budget": 100_000}
REPLAY: Mapping[str, Any] = {**SCENE, "turns_after": "user_messages"}
_CHAT = [
    {"role": "user", "content": "I wait at the lamp."},
    {"role": "assistant", "name": "Mira", "content": "Night falls."},
    {"role": "user", "content": "Who lit the lamp?"},
]
CHAT_REPLAY: Mapping[str, Any] = {"books": [{"book": BOOK}], "chat": _CHAT}
REPLAY_PLAN: Mapping[str, Any] = {**CHAT_REPLAY, "policy": "native"}
REPLAY_DIFF: Mapping[str, Any] = {
    "chat": _CHAT,
    "first": {"books": [{"book": BOOK}]},
    "second": {"books": [{"book": BOOK}], "settings": {"native": {"token_budget": 10}}},
}
_TOWER: Mapping[str, Any] = {
    "uid": "tower",
    "content": "灯塔由哑女看守。",
    "position": 4,
    "order": 50,
    "trigger_config": {"triggers": {"keyword": [True, {"key": ["灯塔"]}]}},
}
REPLICA: Mapping[str, Any] = {
    "worldBookData": {
        "globalBooks": [{"id": BOOK_ID, "name": "Harbour"}, {"name": "雾隐渡"}],
        "characterBookId": None,
    },
    "mes": "去灯塔看看",
    "chatHistory": ["夜深了。", {"mes": "Night falls over the harbour."}],
    "dynamicTableData": {"currentValues": {"力量": 15, "态度": "友好"}},
    "books": {"雾隐渡": {"name": "雾隐渡", "entries": [_TOWER]}},
}
REPLICA_PREVIEW: Mapping[str, Any] = {**REPLICA, "changed": []}
REPLICA_EXPLAIN: Mapping[str, Any] = {"request": REPLICA, "entry": "tower", "budget": 100_000}
ASSEMBLE: Mapping[str, Any] = {
    "draft": [
        {"kind": "character", "message": {"role": "system", "content": "Mira keeps the lamp."}},
        {"kind": "chat", "message": {"role": "assistant", "content": "Night falls."}},
        {"kind": "input", "message": {"role": "user", "content": "Who lit the lamp?"}},
    ],
    "blocks": [
        {
            "id": f"{BOOK_ID}:1:lamp",
            "title": "The lamp",
            "content": "The lamp on the mole burns green since the flood.",
            "position": "at_depth",
            "depth": 1,
            "reason": "keyword",
        }
    ],
    "budget": {"context_window": 8192, "reserved_output": 800},
}
