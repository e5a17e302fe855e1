"""The page /demo in a browser: a chat, the lore of each reply and its reasons."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from browser.chromium import Show, Visit
from process import Server
from served import Tenant

BELL = {"id": "bell", "title": "钟", "keys": ["钟", "bell"], "content": "LORE 钟归沈七管。"}
TIDE = {"id": "tide", "title": "潮", "keys": ["潮"], "content": "LORE 潮。"}
ENGLISH = {
    "lang": "en",
    "language": "中文",
    "input": "Your message",
    "send": "Send",
    "prompt": "Prompt",
    "load": "Show",
    "injected": "Injected: 1",
    "left": "Left out: 1",
    "none": "No book is bound to this prompt.",
    "down": "Failed: the service is unreachable.",
    "scene": "Scene",
    "char": "Character",
    "state": "State, as JSON",
    "persona": "Persona",
    "warnings": "Warnings: 1",
    "object": "Failed: must be a JSON object: State, as JSON",
    "variables": "Variables, as JSON",
    "messages": "Whole chat, as JSON",
    "zone": "Time zone",
    "list": "Failed: must be a JSON list: Whole chat, as JSON",
}
CHINESE = {
    "lang": "zh-CN",
    "language": "English",
    "input": "你的消息",
    "send": "发送",
    "prompt": "提示词",
    "load": "查看",
    "injected": "已注入: 1",
    "left": "未注入: 1",
    "none": "此提示词未绑定任何书。",
    "down": "操作失败：无法连接服务。",
    "scene": "场景",
    "char": "角色名",
    "state": "状态（JSON）",
    "persona": "用户人设",
    "warnings": "警告: 1",
    "object": "操作失败：必须是 JSON 对象：状态（JSON）",
    "variables": "变量（JSON）",
    "messages": "完整对话（JSON）",
    "zone": "时区",
    "list": "操作失败：必须是 JSON 数组：完整对话（JSON）",
}


@pytest.fixture(scope="module", autouse=True)
def _bound(server: Server) -> None:
    tenant = Tenant(server, "demo")
    book_id = tenant.create({"name": "渡口", "entries": [BELL, TIDE]})
    body = {"bindings": [{"book_id": book_id}]}
    bound = tenant("PUT", "/v1/prompt-bindings", params={"prompt_id": "sample"}, json=body)
    assert bound.status_code == 200, bound.text


def say(page: Page, texts: dict[str, str], said: str) -> None:
    page.get_by_label(texts["input"]).fill(said)
    page.get_by_role("button", name=texts["send"]).click()


@pytest.mark.parametrize("texts", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_a_reply_shows_its_lore_and_the_reasons(
    server: Server, visit: Visit, show: Show, texts: dict[str, str]
) -> None:
    page = visit(f"{server.url}/demo", texts["lang"])
    expect(page.locator("html")).to_have_attribute("lang", texts["lang"])
    say(page, texts, "我敲钟。<b>ดี</b>")
    expect(page.get_by_text("我敲钟。<b>ดี</b>", exact=True)).to_be_visible()
    expect(page.get_by_text(texts["injected"])).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="keyword")).to_contain_text("bell")
    page.get_by_text(texts["left"]).click()
    expect(page.get_by_role("row").filter(has_text="not_triggered")).to_contain_text("tide")
    assert "LORE" not in page.content()
    show(page, f"demo-{texts['lang']}")


@pytest.mark.parametrize("texts", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_the_form_says_what_is_known_about_the_turn(
    server: Server, visit: Visit, show: Show, texts: dict[str, str]
) -> None:
    tenant = Tenant(server, "demo")
    storm = {"id": "storm", "constant": True, "content": "{{char}}"}
    storm["conditions_text"] = ["tb.storm = true"]
    book_id = tenant.create({"name": f"风 {texts['lang']}", "entries": [storm]})
    prompt = f"scene-{texts['lang']}"
    body = {"bindings": [{"book_id": book_id}]}
    tenant("PUT", "/v1/prompt-bindings", params={"prompt_id": prompt}, json=body)
    page = visit(f"{server.url}/demo", texts["lang"])
    page.get_by_label(texts["prompt"], exact=True).fill(prompt)
    page.get_by_text(texts["scene"], exact=True).click()
    page.get_by_label(texts["char"], exact=True).fill("沈七")
    page.get_by_label(texts["persona"], exact=True).fill("摆渡人")
    page.get_by_label(texts["state"], exact=True).fill('{"storm": true}')
    say(page, texts, "你好。")
    expect(page.get_by_text(texts["injected"])).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="constant")).to_contain_text("storm")
    expect(page.get_by_text(texts["warnings"])).to_be_visible()
    show(page, f"demo-scene-{texts['lang']}")
    page.get_by_label(texts["state"], exact=True).fill("[1]")
    say(page, texts, "你好。")
    expect(page.get_by_text(texts["object"])).to_be_visible()


@pytest.mark.parametrize("texts", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_the_form_has_what_macros_read(server: Server, visit: Visit, texts: dict[str, str]) -> None:
    tenant = Tenant(server, "demo")
    entry = {"id": "macro", "constant": True, "content": "{{getvar::潮}}{{lastMessage}}"}
    book_id = tenant.create({"name": f"宏 {texts['lang']}", "entries": [entry]})
    prompt = f"macros-{texts['lang']}"
    body = {"bindings": [{"book_id": book_id}], "policy": "sillytavern"}
    tenant("PUT", "/v1/prompt-bindings", params={"prompt_id": prompt}, json=body)
    page = visit(f"{server.url}/demo", texts["lang"])
    page.get_by_label(texts["prompt"], exact=True).fill(prompt)
    page.get_by_text(texts["scene"], exact=True).click()
    page.get_by_label(texts["variables"], exact=True).fill('{"local": {"潮": "涨"}}')
    page.get_by_label(texts["zone"], exact=True).fill("Asia/Shanghai")
    page.get_by_label(texts["messages"], exact=True).fill("{}")
    say(page, texts, "你好。")
    expect(page.get_by_text(texts["list"])).to_be_visible()
    page.get_by_label(texts["messages"], exact=True).fill('[{"role": "user", "content": "灯"}]')
    with page.expect_request("**/demo/api/chat") as asked:
        say(page, texts, "你好。")
    assert asked.value.post_data_json["scene"] == {
        "timezone": "Asia/Shanghai",
        "variables": {"local": {"潮": "涨"}},
        "messages": [{"role": "user", "content": "灯"}],
    }
    expect(page.get_by_text(texts["injected"])).to_be_visible()


def test_the_other_language_keeps_the_chat(server: Server, visit: Visit) -> None:
    page = visit(f"{server.url}/demo")
    say(page, ENGLISH, "the bell")
    expect(page.get_by_text(ENGLISH["injected"])).to_be_visible()
    page.get_by_role("button", name=ENGLISH["language"]).click()
    expect(page.get_by_text(CHINESE["injected"])).to_be_visible()
    expect(page.get_by_text("the bell", exact=True)).to_be_visible()
    page.get_by_role("button", name=CHINESE["language"]).click()
    expect(page.get_by_text(ENGLISH["injected"])).to_be_visible()


@pytest.mark.parametrize("texts", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_what_is_missing_is_said(server: Server, visit: Visit, texts: dict[str, str]) -> None:
    page = visit(f"{server.url}/demo", texts["lang"])
    page.get_by_label(texts["prompt"]).fill("<img src=x onerror=alert(1)>")
    page.get_by_role("button", name=texts["load"]).click()
    expect(page.get_by_text(texts["none"])).to_be_visible()
    page.context.set_offline(offline=True)
    say(page, texts, "bell")
    expect(page.get_by_text(texts["down"])).to_be_visible()
