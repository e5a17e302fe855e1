"""Attacks below the routes: sockets, heads, and clients that are slow or never read."""

from __future__ import annotations

import json

from siege.acts import (
    CONTINUATIONS,
    PING,
    PONG,
    ask,
    crowd,
    dribble,
    flood,
    hold_socket,
    never_read,
    opening,
    pipeline,
    repeat,
    trickle,
)
from siege.attack import Attack, Blow, Site

_LIVE = "/v1/live"


def _frames(frames: bytes, site: Site, *, key: str | None = None) -> Blow:
    return flood, opening(site, site.path(_LIVE, prompt_id="p"), key=key) + frames


def _pings(site: Site) -> list[Blow]:
    return [_frames(PING, site)]


def _pongs(site: Site) -> list[Blow]:
    return [_frames(PONG, site)]


def _continuations(site: Site) -> list[Blow]:
    return [_frames(CONTINUATIONS, site)]


def _frames_with_key(site: Site) -> list[Blow]:
    small = b"\x81\x81\0\0\0\0a"
    return [_frames(frames, site, key="") for frames in (PING, PONG, CONTINUATIONS, small)]


def _chat_socket(site: Site) -> list[Blow]:
    """Messages on a socket that answers them, as many and as large as go in."""
    path = "/api/chat/role/chat/ws"
    large = json.dumps({"mes": "a " * 1_000_000, "chatHistory": ["b " * 100] * 9_000}).encode()
    framed = b"\x81\xff" + len(large).to_bytes(8) + b"\0\0\0\0" + large
    tiny = b"\x81\x82\0\0\0\0{}"
    return [(flood, opening(site, path, key="") + frames) for frames in (framed, tiny)]


def _no_key(site: Site) -> list[Blow]:
    paths = (site.path(_LIVE, prompt_id="p"), "/api/chat/role/chat/ws")
    return [(hold_socket, opening(site, path)) for path in paths]


def _pipelined(site: Site) -> list[Blow]:
    no_key = site.request("GET", "/openapi.json", key=None)
    return [
        (pipeline, request)
        for request in (no_key, site.get("/v1/books"), site.request("GET", "/readyz", key=None))
    ]


def _chunked(site: Site) -> list[Blow]:
    head = site.request(
        "PUT", site.path("/v1/prompt-bindings", prompt_id="p"), b"", "Transfer-Encoding: chunked"
    )
    head = head.replace(b"Content-Length: 0\r\n", b"")
    head = head.replace(b"Host:", b"Content-Type: application/json\r\nHost:")
    extended = b"1;" + b"x" * 200 + b"\r\n \r\n"
    return [
        (ask, head + b"1\r\n \r\n" * site.size(1_000_000) + b"0\r\n\r\n"),
        (ask, head + extended * site.size(50_000) + b"0\r\n\r\n"),
        (ask, head + b"0\r\n" + b"a:b\r\n" * site.size(200_000) + b"\r\n"),
    ]


def _heads(site: Site) -> list[Blow]:
    """Heads as large as they may be, of as many parts as go in."""
    many = [f"a{n}:" for n in range(6_000)]
    query = "&".join(f"{n:x}=" for n in range(8_000))
    return [
        (repeat, site.request("GET", "/readyz", b"", *many, key=None)),
        (repeat, site.request("GET", f"/v1/books?{query}", key=None)),
        (repeat, site.request("GET", f"/v1/books?{'%41' * 20_000}=1", key=None)),
        (repeat, site.request("GET", "/" + "a/" * 30_000, key=None)),
        (repeat, site.request("GET", "/readyz", b"", "Cookie: " + "a=b; " * 12_000, key=None)),
    ]


def _slow_heads(site: Site) -> list[Blow]:
    return [(dribble, site.get("/v1/books"))]


def _slow_bodies(site: Site) -> list[Blow]:
    large = site.post("/v1/books", {"name": "a", "description": "b" * 3_000_000})
    return [
        (trickle, large),
        (trickle, site.form("/v1/imports/preview", "a.json", b"a" * 2_000_000)),
    ]


def _large_book(site: Site) -> str:
    entries = [{"content": f"{n} lamp " * 200, "keys": ["a"]} for n in range(site.size(4_500))]
    return site.create({"name": "large", "entries": entries})


def _never_read(site: Site) -> list[Blow]:
    book_id = _large_book(site)
    path = f"/v1/books/{book_id}/export"
    return [
        (never_read, site.get(path, format="st_world")),
        (never_read, site.get(f"/v1/books/{book_id}")),
    ]


def _connections(site: Site) -> list[Blow]:
    whole = site.request("GET", "/readyz", key=None)
    return [(crowd, b""), (crowd, whole[:30]), (crowd, whole)]


def _streams(site: Site) -> list[Blow]:
    """Subscribers that never read their events, and turns that cause events."""
    book_id = site.create(
        {"name": "told", "entries": [{"content": "x" * 2_000, "constant": True}] * 100}
    )
    given = {"books": [{"book_id": book_id}], "query": "a", "token_budget": 32_000}
    path = site.path("/v1/context/select", prompt_id="p")
    body = json.dumps(given).encode()
    select = site.request("POST", path, body, "Content-Type: application/json")
    watching: list[Blow] = [
        (never_read, opening(site, site.path(_LIVE, prompt_id="p"), key="")),
        (never_read, site.get(_LIVE, prompt_id="p")),
    ]
    return [watching[0], (repeat, select), watching[1], (repeat, select)]


def _no_keys(site: Site) -> list[Blow]:
    unknown = "lw_0123456789abcdef_" + "x" * 43
    return [
        (repeat, site.request("GET", site.path("/v1/books"), key=unknown)),
        (repeat, site.request("GET", site.path("/v1/books"), key="lw_a_" + "x" * 60_000)),
        (repeat, site.request("GET", "/openapi.json", key=None)),
    ]


WIRE = (
    Attack(name="pings without key", make=_pings, short=0.05),
    Attack(name="pongs without key", make=_pongs, short=0.05),
    Attack(name="continuations without key", make=_continuations, short=0.05),
    Attack(name="frames with a key", make=_frames_with_key, short=0.05),
    Attack(name="messages to answer", make=_chat_socket, short=0.05),
    Attack(name="sockets without key", make=_no_key, short=0.1),
    Attack(name="pipelined and unread", make=_pipelined, short=0.1),
    Attack(name="chunks of one byte", make=_chunked, short=0.02),
    Attack(name="large heads", make=_heads, short=0.05),
    Attack(name="slow heads", make=_slow_heads, short=0.1),
    Attack(name="slow bodies", make=_slow_bodies, short=0.1),
    Attack(name="answers never read", make=_never_read, short=0.05),
    Attack(name="idle connections", make=_connections, short=0.1),
    Attack(name="subscribers that never read", make=_streams, short=0.1),
    Attack(name="bad keys", make=_no_keys),
)
