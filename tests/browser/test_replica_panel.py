"""The panel of the page /live on the chat socket of SillyTavern_replica.

Source: docs/rules/replica.md §6, §10.

The page's own panel is shown alone here, and its store is what that program's front end has: the
entries of the last frame.
"""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.chromium import Show, Visit
from process import Server
from replica_books import constant, keyed

EVIL = "<img src=x onerror=\"document.title='evil'\"><b>雾</b>"
BOOK = "雾夜"
ENTRIES = [
    constant("rule", position=5, content="只说实话。"),
    keyed("late", "灯塔", position=0, order=90, comment="灯塔", content="หมอก 🌫️ 霧の灯台。"),
    constant("early", position=0, order=10, content="先来的。"),
    keyed("evil", "雾", position=4, order=1, comment=EVIL, content=EVIL),
    constant("deep", position=6, order=1, depth=2, content="深处。"),
]
OPEN = """([path, language]) => {
  const box = panel.make("main");
  document.body.replaceChildren(box);
  const socket = new WebSocket(path);
  let kinds, over;
  socket.addEventListener("message", ({ data }) => {
    const frame = JSON.parse(data);
    kinds.push(frame.type);
    if (frame.type === "worldbook_active") panel.render(box, frame.entries, language);
    if (frame.type === "complete" || frame.type === "error") over(kinds);
  });
  window.say = (turn) => new Promise((resolve) => {
    [kinds, over] = [[], resolve];
    socket.send(JSON.stringify(turn));
  });
  return new Promise((resolve) => socket.addEventListener("open", () => resolve(true)));
}"""


@pytest.fixture(scope="module", autouse=True)
def _book(server: Server) -> None:
    made = server.client.post("/api/worldbooks", json={"name": BOOK, "entries": ENTRIES})
    assert made.status_code == 201, made.text


def opened(page: Page, language: str) -> Page:
    path = f"/api/chat/{quote('沈七')}/{quote('第一夜')}/ws"
    assert page.evaluate(OPEN, [path, language])
    return page


def say(page: Page, mes: str, *books: str) -> list[str]:
    """Send a turn, wait until it is over, and return the types of its frames."""
    named = [{"name": name} for name in books]
    turn = {"mes": mes, "worldBookData": {"globalBooks": named}}
    kinds: list[str] = page.evaluate("say", turn)
    return kinds


def headings(page: Page) -> Locator:
    return page.get_by_role("main").get_by_role("heading")


@pytest.mark.parametrize("language", ["zh", "en"])
def test_25_groups_are_headed_by_label_and_number(
    server: Server, visit: Visit, show: Show, language: str
) -> None:
    page = opened(visit(f"{server.url}/live"), language)
    say(page, "去灯塔看看，雾来了", BOOK)
    labels = {
        "zh": ("角色定义之后", "系统提示/作者注释", "作为系统消息", "深度插入"),
        "en": (
            "After the character definition",
            "System hint / author's note",
            "As a system message",
            "Depth insertion",
        ),
    }[language]
    after, note, system, depth = labels
    expect(headings(page)).to_have_text(
        [
            *(f"{after} (0)", "early", "灯塔"),
            *(f"{note} (4)", EVIL),
            *(f"{system} (5)", "rule"),
            *(f"{depth} (6)", "deep"),
        ]
    )
    expect(page.get_by_role("main")).to_contain_text("keyword")
    show(page, f"replica-panel-{language}")


def test_24_an_empty_list_clears_the_panel(server: Server, visit: Visit) -> None:
    page = opened(visit(f"{server.url}/live"), "zh")
    assert say(page, "灯塔", BOOK)[:2] == ["worldbook_active", "chunk"]
    expect(headings(page)).not_to_have_count(0)
    assert say(page, "灯塔")[:2] == ["worldbook_active", "chunk"]
    expect(headings(page)).to_have_count(0)
    expect(page.get_by_text("没有触发的条目。")).to_be_visible()


def test_26_html_is_shown_as_text(server: Server, visit: Visit) -> None:
    page = opened(visit(f"{server.url}/live"), "zh")
    say(page, "雾", BOOK)
    expect(page.get_by_role("heading", name=EVIL, exact=True)).to_be_visible()
    expect(page.get_by_role("paragraph").filter(has_text=EVIL)).to_be_visible()
    expect(page.locator("img, b")).to_have_count(0)
    assert page.title() == "Active lore"


def test_entries_without_a_position_count_as_0_and_keep_their_order(
    server: Server, visit: Visit
) -> None:
    page = visit(f"{server.url}/live")
    given = [{"uid": "a", "position": 7}, {"uid": "b"}, {"uid": "c", "position": 0}, {"uid": "d"}]
    grouped = """(entries) => panel.group(entries)
        .map((each) => [each.position, each.entries.map((entry) => entry.uid)])"""
    assert page.evaluate(grouped, given) == [[0, ["b", "c", "d"]], [7, ["a"]]]
    assert page.evaluate("panel.nameOf(9, 'zh')") == "角色定义之后 (9)"
