"""The paths of SillyTavern_replica from a page in a browser, as its own front end uses them."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from browser.chromium import Visit
from chat_upstream import ChatUpstream
from process import Server
from replica_books import constant, keyed

# What a front end does: all turns on one socket, the next one when the last is complete.
CHAT = """
async ([address, turns]) => {
    const socket = new WebSocket(address), frames = [];
    const ended = new Promise((done) => socket.addEventListener("close", done));
    const say = () => turns.length ? socket.send(JSON.stringify(turns.shift())) : socket.close();
    socket.addEventListener("open", say);
    socket.addEventListener("message", (event) => {
        const frame = JSON.parse(event.data);
        frames.push(frame);
        if (["complete", "error"].includes(frame.type)) say();
    });
    await ended;
    return frames;
}
"""
BOOKS = """
async () => {
    const ask = async (method, path, body) => (await fetch(path, {
        method, headers: {"Content-Type": "application/json"}, body: JSON.stringify(body),
    })).json();
    const entry = {key: ["灯塔"], content: "<b>灯塔</b>由哑女看守。", position: 4};
    await ask("POST", "/api/worldbooks/", {name: "雾 渡"});
    const made = await ask("POST", "/api/worldbooks/雾 渡/entries", entry);
    await ask("PUT", `/api/worldbooks/雾 渡/entries/${made.uid}`, {order: 5});
    return ask("GET", `/api/worldbooks/${encodeURIComponent("雾 渡")}`);
}
"""


@pytest.fixture(scope="module", autouse=True)
def _book(server: Server) -> None:
    book = {"name": "渡口", "entries": [constant("rule", order=1), keyed("tower", "灯塔")]}
    assert server.client.post("/api/worldbooks", json=book).status_code == 201


def chat(page: Page, server: Server, *turns: object) -> list[dict[str, Any]]:
    address = f"ws://127.0.0.1:{server.port}/api/chat/沈七/第一夜/ws"
    frames: list[dict[str, Any]] = page.evaluate(CHAT, [address, list(turns)])
    return frames


def test_24_a_page_gets_the_entries_before_the_first_chunk(
    server: Server, upstream: ChatUpstream, visit: Visit
) -> None:
    upstream.reply("灯 亮 了。")
    page = visit(f"{server.url}/demo")
    named = {"worldBookData": {"globalBooks": [{"name": "渡口"}]}}
    frames = chat(page, server, {**named, "mes": "去灯塔"}, {"mes": "灯塔"}, {"mes": 7}, named)
    reply = ["chunk", "chunk", "chunk", "complete"]
    assert [frame["type"] for frame in frames] == [
        *("worldbook_active", *reply),
        *("worldbook_active", *reply),
        "error",
        *("worldbook_active", *reply),
    ]
    active = [frame["entries"] for frame in frames if frame["type"] == "worldbook_active"]
    assert [[entry["uid"] for entry in each] for each in active] == [
        ["tower", "rule"],
        [],
        ["rule"],
    ]


def test_a_page_makes_a_book(server: Server, visit: Visit) -> None:
    book = visit(f"{server.url}/demo").evaluate(BOOKS)
    assert book["name"] == "雾 渡"
    (entry,) = book["entries"]
    assert (entry["key"], entry["order"], entry["position"]) == (["灯塔"], 5, 4)
    assert entry["content"] == "<b>灯塔</b>由哑女看守。"


def test_a_page_of_another_origin_gets_no_socket(
    server: Server, upstream: ChatUpstream, visit: Visit
) -> None:
    page = visit(f"{upstream.url}/models")
    before = upstream.calls
    assert chat(page, server, {"mes": "灯塔"}) == []
    assert upstream.calls == before
