"""Attacks by what anybody may do, done without end: reads, writes, searches, and mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from siege.acts import ask, leave, repeat
from siege.attack import Attack, Blow, Site
from siege.turns import said

Json = Any
_GATEWAY = "/gateway/v1/chat/completions"


def _large(site: Site, name: str = "large") -> Json:
    entries = [
        {"content": f"{name} {n} lamp " * 120, "keys": [f"k{n}", "lamp"]}
        for n in range(site.size(4_500))
    ]
    return {"name": name, "entries": entries}


def _exports(site: Site) -> list[Blow]:
    book_id = site.create(_large(site))
    path = f"/v1/books/{book_id}"
    forms = ("native", "st_world", "character_book", "lorebook_v3", "replica")
    return [
        *((ask, site.get(f"{path}/export", format=form)) for form in forms),
        (ask, site.get(path)),
    ]


def _publishing(site: Site) -> list[Blow]:
    book_id = site.create(_large(site))
    site.ask(
        "POST", f"/v1/books/{book_id}/revisions", {**_large(site, "second"), "expected_revision": 1}
    )
    return [
        (
            ask,
            site.post(f"/v1/books/{book_id}/revisions", {**_large(site), "expected_revision": 2}),
        ),
        (ask, site.post("/v1/books", _large(site, "new"))),
        (ask, site.get(f"/v1/books/{book_id}/diff", **{"from": 1, "to": 2})),
        (ask, site.post(f"/v1/books/{book_id}/revisions/1/restore", {"expected_revision": 2})),
    ]


def _same_keys(site: Site) -> list[Blow]:
    blows: list[Blow] = []
    for number in range(400):
        book = {"name": f"b{number}", "entries": [{"content": "x"}] * site.size(20)}
        blows.append((ask, site.post("/v1/books", book, f"Idempotency-Key: key {number % 40}")))
    return blows


def _searches(site: Site) -> list[Blow]:
    site.create(_large(site, "searched"))
    site.create(_large(site, "second"))
    words = " ".join(f"lamp{n} {n}" for n in range(700))[:8_000]
    shapes: Sequence[Json] = (
        {"query": words},
        {"query": "lamp " * 1_600, "limit": 100},
        {"query": "灯塔雾渡" * 2_000, "limit": 100},
        {"query": "\u0130" * 8_000},
    )
    return [(ask, site.post("/v1/search", shape)) for shape in shapes]


def _tokens(site: Site) -> list[Blow]:
    size = site.size(1_000_000)
    texts = ("a" * size, " " * size, "灯" * size, "!" * size, "ab1 " * (size // 4), "\n" * size)
    return [
        *((ask, site.post("/v1/tokens/count", {"texts": [text]})) for text in texts),
        (ask, site.post("/v1/tokens/count", {"texts": ["lamp " * site.size(9_000)] * 1_000})),
    ]


def _hanging(site: Site) -> list[Blow]:
    """Chats for a model server that never answers, and clients that leave it."""
    chat = {"model": "m", "messages": said(["lamp " * 1_000] * 100), "stream": True}
    request = site.post(_GATEWAY, chat)
    return [(leave, request), (ask, request)]


def _chats(site: Site) -> list[Blow]:
    """Chats whose messages alone cost much."""
    many = {"model": "m", "messages": said("a" for _ in range(site.size(300_000)))}
    long = {"model": "m", "messages": said(["lamp " * site.size(2_000_000)])}
    return [(ask, site.post(_GATEWAY, chat)) for chat in (many, long)]


def _assembled(site: Site) -> list[Blow]:
    path = "/v1/host/assemble"
    draft = [
        {"kind": "chat", "message": {"role": "user", "content": "lamp " * 20}}
        for _ in range(site.size(9_000))
    ]
    blocks = [
        {
            "id": f"b{n}",
            "content": "x " * 50,
            "position": "at_depth",
            "depth": n % 10_000,
            "reason": "constant",
        }
        for n in range(site.size(9_000))
    ]
    return [(ask, site.post(path, {"draft": draft, "blocks": blocks}))]


def _compiled(site: Site) -> list[Blow]:
    """Stored books, each compiled and held as long as there is room."""
    entries = [
        {"content": f"{n} lamp " * 150, "keys": [f"k{n} {m}" for m in range(10)]}
        for n in range(site.size(2_500))
    ]
    ids = [site.create({"name": f"b{n}", "entries": entries}) for n in range(site.size(24, 2))]
    selects = [
        (
            ask,
            site.post(
                "/v1/context/select",
                {"books": [{"book_id": each}], "query": "k1 1", "explain": "none"},
            ),
        )
        for each in ids
    ]
    searches = [
        (ask, site.post("/v1/search", {"books": [{"book_id": each}], "query": "lamp"}))
        for each in ids
    ]
    return [*selects, *searches]


def _listing(site: Site) -> list[Blow]:
    for number in range(site.size(300)):
        site.create({"name": f"book {number}" + "x" * 200})
    return [
        (repeat, site.get("/v1/books", limit=200)),
        (repeat, site.get("/v1/books", limit=200, q="x" * 300)),
        (repeat, site.get("/v1/conversations", limit=200)),
        (repeat, site.get("/api/worldbooks")),
        (repeat, site.get("/v1/indexes", limit=200)),
    ]


def _entries_of_replica(site: Site) -> list[Blow]:
    """Changes of one entry, each of which writes the whole book anew."""
    entries = [
        {"uid": str(n), "content": "lamp " * 200, "key": ["a"]} for n in range(site.size(4_000))
    ]
    name = f"replica-{site.port}"
    body = {"name": name, "entries": entries}
    site.ask("POST", "/api/worldbooks", body)
    path = f"/api/worldbooks/{name}"
    return [
        (ask, site.post(f"{path}/entries", {"content": "x", "key": ["b"]})),
        (ask, site.get(path)),
        (ask, site.get(f"{path}/export")),
        (ask, site.get(f"{path}/entries/1")),
    ]


def _bindings(site: Site) -> list[Blow]:
    book_id = site.create({"name": "bound", "entries": [{"content": "x", "constant": True}]})
    bound = {"bindings": [{"book_id": book_id}]}
    path = site.path("/v1/prompt-bindings", prompt_id="p")
    body = site.post("/v1/prompt-bindings", bound).partition(b"\r\n\r\n")[2]
    put = site.request("PUT", path, body, "Content-Type: application/json")
    return [(repeat, put), (repeat, site.get("/v1/prompt-bindings/resolve", prompt_id="p"))]


def _vectors(site: Site) -> list[Blow]:
    """Turns and searches that compare many vectors, and indexes that are built again and again."""
    entries = [
        {"content": f"lamp {n}", "keys": [f"k{n}"], "replica": _rag(n)}
        for n in range(site.size(1_000))
    ]
    book_id = site.create({"name": "near", "entries": entries})
    index = f"/v1/books/{book_id}/index"
    site.ask("POST", index, {"revision": 1})
    book = {"books": [{"book_id": book_id}], "query": "lamp " * 20}
    activate = {
        "worldBookData": {"globalBooks": [{"id": book_id}]},
        "mes": "lamp",
        "chatHistory": ["lamp " * 50] * 200,
    }
    return [
        (ask, site.post("/v1/replica/activate", activate)),
        (ask, site.post("/v1/context/select", {**book, "strategy": "hybrid"})),
        (ask, site.post("/v1/search", {**book, "mode": "hybrid", "limit": 100})),
        (ask, site.post("/v1/search", {"query": "lamp", "mode": "vector", "limit": 100})),
        (ask, site.post(index, {"revision": 1, "force": True})),
    ]


def _rag(number: int) -> Json:
    rag = {"threshold": 0, "top_k": 1_000, "query_template": f"{{{{user}}}} {number % 16}"}
    return {"trigger_config": {"triggers": {"rag": [True, rag]}}}


LOOPS = (
    Attack(name="exports", make=_exports, short=0.05),
    Attack(name="publishing", make=_publishing, short=0.02),
    Attack(name="idempotency keys", make=_same_keys),
    Attack(name="searches", make=_searches, short=0.02),
    Attack(name="tokens counted", make=_tokens, short=0.05),
    Attack(name="hanging model server", make=_hanging, hangs=True),
    Attack(name="chats", make=_chats, short=0.02),
    Attack(name="prompts assembled", make=_assembled, short=0.05),
    Attack(name="books compiled and held", make=_compiled, short=0.02),
    Attack(name="lists", make=_listing, short=0.01),
    Attack(name="entries changed", make=_entries_of_replica, short=0.02),
    Attack(name="bindings", make=_bindings),
    Attack(name="vectors", make=_vectors, short=0.02),
)
