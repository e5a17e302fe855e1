"""The page /live in a browser, on a real server: active entries as selections are made."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from browser.chromium import Show, Visit
from process import Server, environment, running
from replica_books import constant, keyed
from served import Tenant

EVIL = "<img src=x onerror=\"document.title='evil'\">"
LAMP = {
    "id": "lamp",
    "title": "The lamp",
    "keys": ["lamp"],
    "content": "It burns green.",
    "order": 90,
}
BELL = {"id": "bell", "title": "钟", "keys": ["钟"], "content": "钟归沈七管。", "order": 50}
FERRY = {
    "id": "ferry",
    "title": "霧の渡し場",
    "keys": ["渡し"],
    "content": "หมอกลง 🌫️ 霧が出る。",
    "position": "at_depth",
    "depth": 2,
}
SPELL = {"id": "spell", "title": EVIL, "keys": ["spell"], "content": f"{EVIL}<b>bold</b>"}
BOOK = {"name": "渡口", "entries": [LAMP, BELL, FERRY, SPELL]}
TOWER = {"uid": 0, "key": ["灯塔"], "comment": "灯塔", "content": "灯塔烧油。", "position": 0}
FOG = {"uid": 1, "constant": True, "comment": "雾", "content": "หมอก 🌫️", "position": 4}
WORLD = {"entries": {"0": TOWER, "1": {**FOG, "depth": 3, "role": 2}}}


class Prompt:
    """A prompt of a tenant that nobody else knows, with a book."""

    def __init__(self, server: Server, prompt_id: str = "harbour") -> None:
        self.tenant, self.prompt_id = Tenant(server), prompt_id
        self.book_id = self.tenant.create(BOOK)

    def at(self, server: Server) -> Prompt:
        """Return the same prompt at another server."""
        other = object.__new__(Prompt)
        other.tenant = self.tenant.at(server)
        other.prompt_id, other.book_id = self.prompt_id, self.book_id
        return other

    @property
    def page(self) -> str:
        query = urlencode({"tenant_id": self.tenant.tenant_id, "prompt_id": self.prompt_id})
        return f"{self.tenant.server.url}/live?{query}"

    def select(self, query: str) -> None:
        body = {"books": [{"book_id": self.book_id}], "query": query, "token_budget": 1000}
        params = {"prompt_id": self.prompt_id}
        answer = self.tenant("POST", "/v1/context/select", params=params, json=body)
        assert answer.status_code == 200, answer.text

    def bind(self, world: dict[str, Any]) -> None:
        """Bind a book from SillyTavern to it."""
        files = [("files", ("world.json", json.dumps(world).encode()))]
        imported = self.tenant("POST", "/v1/imports/files", files=files).json()
        body = {"bindings": [{"book_id": imported["books"][0]["book_id"]}]}
        params = {"prompt_id": self.prompt_id}
        answer = self.tenant("PUT", "/v1/prompt-bindings", params=params, json=body)
        assert answer.status_code == 200, answer.text


@pytest.fixture(name="prompt")
def prompt_fixture(server: Server) -> Prompt:
    return Prompt(server)


def event(number: int) -> dict[str, Any]:
    """Return a selection of one entry, as docs/live.md has it."""
    title = f"entry {number}"
    entry = {"book_id": "b", "entry_id": "e", "title": title, "reason": "constant", "preview": ""}
    return {
        "type": "selection",
        "id": number,
        "policy": "replica",
        "source": "replica",
        "at": "2026-03-01T12:00:00.000000Z",
        "ledger": None,
        "groups": [{"position": 5, "label": "作为系统消息", "entries": [entry]}],
        "stats": {
            "total": 1,
            "by_position": [{"position": 5, "label": "作为系统消息", "count": 1}],
            "by_reason": {"constant": 1},
            "tokens": None,
            "token_budget": None,
            "unlisted": 0,
        },
    }


def entries(page: Page) -> Locator:
    """Return the headings of the groups and the titles of the entries, in their order."""
    return page.get_by_role("region", name=re.compile("Active entries|触发的条目")).get_by_role(
        "heading"
    )


def test_selections_appear_as_they_are_made(prompt: Prompt, visit: Visit, show: Show) -> None:
    page = visit(prompt.page)
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Active entries")).to_contain_text("No selection yet.")
    prompt.select("lamp, 钟, 渡し")
    expect(entries(page)).to_have_text(
        [
            "Active entries",
            "Before the character",
            "钟",
            "The lamp",
            "In the history · depth 2 · system",
            "霧の渡し場",
        ]
    )
    now = page.get_by_role("region", name="Active entries")
    expect(now).to_contain_text("keyword · 钟")
    expect(now.get_by_text("หมอกลง 🌫️ 霧が出る。", exact=True)).to_be_visible()
    expect(now).to_contain_text("By reason: keyword × 3")
    expect(now).to_contain_text("By position: Before the character × 2 · In the history × 1")
    expect(now).to_contain_text(re.compile(r"Tokens: \d+ / 1000"))
    show(page, "live-en")
    page.get_by_role("button", name="中文").click()
    expect(entries(page)).to_have_text(
        [
            "触发的条目",
            "角色定义之前",
            "钟",
            "The lamp",
            "历史消息之中 · 深度 2 · system",
            "霧の渡し場",
        ]
    )
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    show(page, "live-zh")


def test_nothing_active_clears_the_panel(prompt: Prompt, visit: Visit) -> None:
    page = visit(prompt.page, "zh-CN")
    expect(page.get_by_text("已连接", exact=True)).to_be_visible()
    prompt.select("lamp")
    expect(page.get_by_role("heading", name="The lamp")).to_be_visible()
    prompt.select("nothing of it")
    expect(page.get_by_text("没有触发的条目。")).to_be_visible()
    expect(entries(page)).to_have_count(1)


def test_texts_of_a_book_stay_texts(prompt: Prompt, visit: Visit) -> None:
    page = visit(prompt.page)
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    prompt.select("spell")
    expect(page.get_by_role("heading", name=EVIL, exact=True)).to_be_visible()
    expect(page.get_by_text(f"{EVIL}<b>bold</b>", exact=True)).to_be_visible()
    expect(page.locator("img, b")).to_have_count(0)
    assert page.title() == "Active lore"


def test_earlier_selections_can_be_looked_at_by_keyboard(prompt: Prompt, visit: Visit) -> None:
    page = visit(prompt.page)
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    for query in ("lamp", "钟", "lamp 钟"):
        prompt.select(query)
    selections = page.get_by_role("region", name="Selections").get_by_role("listitem")
    expect(selections).to_contain_text(["2 entries", "1 entry", "1 entry"])
    selections.last.get_by_role("button").focus()
    page.keyboard.press("Enter")
    first = selections.last.get_by_role("button")
    expect(first).to_have_attribute("aria-current", "true")
    expect(first).to_be_focused()
    expect(entries(page)).to_have_text(["Active entries", "Before the character", "The lamp"])
    prompt.select("渡し")  # what is being looked at stays
    expect(selections).to_have_count(4)
    expect(entries(page)).to_have_text(["Active entries", "Before the character", "The lamp"])
    page.get_by_role("button", name="Follow the newest").click()
    expect(page.get_by_role("heading", name="霧の渡し場")).to_be_visible()
    expect(page.get_by_role("button", name="Follow the newest")).to_be_hidden()


def test_the_ledger_opens(prompt: Prompt, visit: Visit, show: Show) -> None:
    page = visit(prompt.page)
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    prompt.select("钟")
    page.get_by_text("All decisions").click()
    rows = page.get_by_role("row")
    expect(rows).to_have_text(
        [
            "EntryActiveReasonKey",
            "lampnonot_triggered",
            "bellyeskeyword钟",
            "ferrynonot_triggered",
            "spellnonot_triggered",
        ]
    )
    show(page, "live-ledger")


def test_sillytavern_has_its_own_reasons(prompt: Prompt, visit: Visit) -> None:
    prompt.bind(WORLD)
    page = visit(prompt.page, "zh-CN")
    expect(page.get_by_text("已连接", exact=True)).to_be_visible()
    macros = {"user": "Ann", "char": "Mira"}
    chat = [{"name": "Ann", "content": "去灯塔看看"}]
    body = {"chat": chat, "macros": macros, "context_tokens": 8000, "prompt_id": prompt.prompt_id}
    answer = prompt.tenant("POST", "/v1/sillytavern/activate", json=body)
    assert answer.status_code == 200, answer.text
    expect(entries(page)).to_have_text(
        ["触发的条目", "角色定义之前", "灯塔", "历史消息之中 · 深度 3 · assistant", "雾"]
    )
    now = page.get_by_role("region", name="触发的条目")
    expect(now).to_contain_text("primary · 灯塔")
    expect(now).to_contain_text("按理由：primary × 1 · constant × 1")
    expect(page.get_by_text("全部判定")).to_be_hidden()  # a turn outside a conversation is not kept


def test_replica_has_its_numbers_ascending(prompt: Prompt, visit: Visit) -> None:
    page = visit(prompt.page, "zh-CN")
    expect(page.get_by_text("已连接", exact=True)).to_be_visible()
    entries_of = [
        constant("rule", position=5, content="只说实话。"),
        keyed("tower", "灯塔", position=0, comment="灯塔", content="灯塔由哑女看守。"),
        constant("deep", position=6, depth=2, content="深处。"),
    ]
    body = {
        "mes": "去灯塔看看",
        "worldBookData": {"globalBooks": [{"id": "渡口"}]},
        "books": {"渡口": {"name": "渡口", "entries": entries_of}},
    }
    params = {"prompt_id": prompt.prompt_id}
    answer = prompt.tenant("POST", "/v1/replica/activate", params=params, json=body)
    assert answer.status_code == 200, answer.text
    expect(entries(page)).to_have_text(
        [
            "触发的条目",
            *("角色定义之后 (0)", "灯塔"),
            *("作为系统消息 (5)", "rule"),
            *("深度插入 (6)", "deep"),
        ]
    )
    now = page.get_by_role("region", name="触发的条目")
    expect(now).to_contain_text("按理由：constant × 2 · keyword × 1")
    expect(now).to_contain_text("constant · 深度 2")


def test_what_was_missed_comes_when_the_server_is_back(
    database_url: str, tmp_path: Path, prompt: Prompt, visit: Visit
) -> None:
    given = {"database_url": database_url, "live": True}
    first = Server(tmp_path / "first", **given)
    page = visit(prompt.at(first).page)
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    prompt.at(first).select("lamp")
    expect(page.get_by_role("heading", name="The lamp")).to_be_visible()
    first.kill()
    expect(page.get_by_text(re.compile("Connection lost; next attempt in"))).to_be_visible()
    prompt.select("钟")
    prompt.select("渡し")
    with running(tmp_path / "second", port=first.port, **given):
        expect(page.get_by_text("Connected", exact=True)).to_be_visible()
        expect(page.get_by_role("heading", name="霧の渡し場")).to_be_visible()
        selections = page.get_by_role("region", name="Selections").get_by_role("listitem")
        expect(selections).to_have_count(3)


@pytest.mark.parametrize("locale", ["en-GB", "zh-CN"])
def test_it_says_what_may_be_missing(server: Server, visit: Visit, locale: str) -> None:
    tellings = {
        "expired": ("no longer kept", "不再保留"),
        "too_many": ("only the newest", "只显示其中最新的"),
        "unknown": ("does not know the last one", "服务端找不到此处显示的最后一次"),
        "overflow": ("too many at a time", "同一时间的选择过多"),
    }

    def tell(socket: WebSocketRoute) -> None:
        socket.send(json.dumps({"type": "ready", "last_id": 0}))
        for reason in tellings:
            socket.send(json.dumps({"type": "missed", "reason": reason}))
        socket.send(json.dumps({"type": "something new"}))

    page = visit(f"{server.url}/live?tenant_id=t&prompt_id=p", locale, stand_in=tell)
    log = page.get_by_role("log").get_by_role("paragraph")
    expect(log).to_contain_text([shown[locale == "zh-CN"] for shown in tellings.values()])


def test_many_selections_at_once_are_no_more_than_a_list(server: Server, visit: Visit) -> None:
    def flood(socket: WebSocketRoute) -> None:
        socket.send(json.dumps({"type": "ready", "last_id": 0}))
        for number in range(1, 1001):
            socket.send(json.dumps(event(number)))

    page = visit(f"{server.url}/live?tenant_id=t&prompt_id=p", stand_in=flood)
    expect(page.get_by_role("button", name="replica")).to_have_count(100)
    expect(page.get_by_role("heading", name="entry 1000")).to_be_visible()
    expect(entries(page)).to_have_text(["Active entries", "As a system message (5)", "entry 1000"])


def test_a_page_that_was_cut_off_as_slow_says_so_and_comes_back(
    server: Server, visit: Visit
) -> None:
    asked: list[str] = []

    def drop(socket: WebSocketRoute) -> None:
        asked.append(socket.url)
        socket.send(json.dumps({"type": "ready", "last_id": 7}))
        if len(asked) == 1:
            socket.close(code=4408, reason="slow_consumer")

    page = visit(f"{server.url}/live?tenant_id=t&prompt_id=p", stand_in=drop)
    expect(page.get_by_text("This page read too slowly and was disconnected")).to_be_visible()
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    assert [url.partition("&last_event_id=")[2] for url in asked] == ["", "7"]


@pytest.fixture(name="guarded", scope="module")
def guarded_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """Yield a server that asks for keys, and one that may read and write."""
    folder = tmp_path_factory.mktemp("guarded")
    url = f"sqlite:///{folder / 'lorewell.db'}"
    with running(folder / "log", database_url=url, live=True, auth=True) as server:
        program = [sys.executable, "-c", "from lorewell.cli.main import main; main()"]
        made = subprocess.run(
            [*program, "keys", "create", "--tenant", "*", "--scope", "read", "--scope", "write"],
            env=environment(database_url=url),
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        yield server, made.stdout.strip()


def test_a_key_is_shown_to_the_service_alone(
    guarded: tuple[Server, str], visit: Visit, show: Show
) -> None:
    server, key = guarded
    server.client.headers["Authorization"] = f"Bearer {key}"
    prompt = Prompt(server)
    page = visit(prompt.page)
    expect(page.get_by_text("Refused: the API key is missing, unknown")).to_be_visible()
    for wrong, shown in (("lw_0_0", "unknown or no longer valid"), ("雾 渡", "Invalid API key")):
        page.get_by_label("API key").fill(wrong)
        page.get_by_role("button", name="Connect").click()
        expect(page.get_by_role("status").filter(has_text=shown)).to_be_visible()
    show(page, "live-refused")
    page.get_by_label("API key").fill(key)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Disconnect")).to_be_focused()
    prompt.select("lamp")
    page.get_by_text("All decisions").click()
    expect(page.get_by_role("row").filter(has_text="lamp")).to_contain_text("keyword")
    assert key not in page.url
    kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    assert key not in kept
    page.reload()
    expect(page.get_by_label("API key")).to_have_value("")
    expect(page.get_by_text("Refused: the API key is missing, unknown")).to_be_visible()


def test_both_languages_say_the_same(server: Server, visit: Visit) -> None:
    page = visit(f"{server.url}/live")
    names = """(language) => JSON.stringify(TEXTS[language], (name, value) =>
        typeof value === "object" ? value : "said")"""
    assert page.evaluate(names, "en") == page.evaluate(names, "zh")
