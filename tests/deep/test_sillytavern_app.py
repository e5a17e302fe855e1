"""SillyTavern itself in front of the gateway: the control line of its Prompt Manager, by kind.

Its npm package is installed and run as it is, and driven as a person drives it; nothing of it is
read. `LOREWELL_TEST_SILLYTAVERN` may name a folder where it is installed already.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, TimeoutError as NotInTime, sync_playwright

from browser.chromium import FLAGS, find_browser
from chat_upstream import ChatUpstream, Turn, chat_upstream
from process import Server, free_port, running
from service import Json

PACKAGE = "sillytavern@1.19"
PATIENCE_S = 900  # the first start builds its page
PATIENCE_MS = 300_000
PROMPT = "harbour"
LINE = (
    '[lorewell char="{{char}}" user="{{user}}" type="{{lastGenerationType}}" '
    'last="{{lastMessageId}}"]'
)
KINDS = ("swipe", "regenerate", "continue", "impersonate", "quiet")
WORLD: dict[str, Json] = {
    "named": {"content": "LORE {{char}}/{{user}}"},
    "late": {"content": "LORE late", "delay": 3},
    **{kind: {"content": f"LORE {kind}", "triggers": [kind]} for kind in KINDS},
}
IS_READY = "() => Boolean(globalThis.SillyTavern?.getContext()?.characters?.length)"
CONNECT = """(url) => {
  const choose = (id, value) => {
    const field = document.getElementById(id);
    field.value = value;
    for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, { bubbles: true }));
  };
  choose("main_api", "openai");
  choose("chat_completion_source", "custom");
  choose("custom_api_url_text", url);
  choose("custom_model_id", "harbour");
  document.getElementById("api_button_openai").click();
}"""
PREPARE = """async (line) => {
  const context = SillyTavern.getContext();
  const main = context.chatCompletionSettings.prompts.find((each) => each.identifier === "main");
  main.content = line + "\\n" + main.content;
  await context.selectCharacterById(0);
}"""
IS_BUSY = """() => document.body.dataset.generating === "true"
  || document.getElementById("mes_stop").offsetParent !== null"""


@pytest.fixture(name="folder", scope="module")
def folder_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an installed SillyTavern."""
    given = os.environ.get("LOREWELL_TEST_SILLYTAVERN")
    if given:
        return Path(given)
    npm = shutil.which("npm")
    assert npm, "this takes npm on the PATH"
    folder = tmp_path_factory.mktemp("sillytavern")
    subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE],
        cwd=folder,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return folder / "node_modules" / "sillytavern"


@contextmanager
def sillytavern(folder: Path, kept: Path) -> Iterator[str]:
    """Yield the URL of a SillyTavern with data of its own."""
    node = shutil.which("node")
    assert node, "this takes Node on the PATH"
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    options = {
        "--dataRoot": kept / "data",
        "--configPath": kept / "config.yaml",
        "--port": port,
        "--listen": "false",
        "--browserLaunchEnabled": "false",
    }
    command = [node, "server.js", *(str(each) for pair in options.items() for each in pair)]
    with (kept / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and process.poll() is None:
            with suppress(httpx.TransportError):
                httpx.get(url)
                break
            time.sleep(0.5)
        else:
            raise AssertionError((kept / "log").read_text(encoding="utf-8"))
        yield url
    finally:
        process.terminate()
        process.wait(timeout=60)


@contextmanager
def opened(url: str) -> Iterator[Page]:
    """Yield its page, ready to be used."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(url, timeout=PATIENCE_MS)
        dialog = page.locator("dialog[open] .popup-button-ok")  # at first it asks for a name
        until = time.monotonic() + PATIENCE_S
        while not page.evaluate(IS_READY):
            assert time.monotonic() < until
            with suppress(NotInTime):
                dialog.click(timeout=1_000)
        yield page
        browser.close()


def bind(server: Server) -> None:
    """Bind the world to the prompt."""
    entries = {
        str(uid): {"uid": uid, "comment": name, "key": [], "constant": True, "position": 0, **entry}
        for uid, (name, entry) in enumerate(WORLD.items())
    }
    file = ("world.json", json.dumps({"entries": entries}).encode())
    tenant = {"tenant_id": "default"}
    made = server.client.post("/v1/imports/files", params=tenant, files=[("files", file)])
    body = {"bindings": [{"book_id": made.json()["books"][0]["book_id"]}]}
    params = {**tenant, "prompt_id": PROMPT}
    assert server.client.put("/v1/prompt-bindings", params=params, json=body).is_success


class Chat:
    """A chat in SillyTavern, and what the model behind the gateway got."""

    def __init__(self, page: Page, upstream: ChatUpstream) -> None:
        self.page, self.upstream = page, upstream

    def click(self, selector: str) -> None:
        """Click on an item, also one of a menu that is not open."""
        self.page.evaluate("(it) => document.querySelector(it).click()", selector)

    def say(self, text: str) -> None:
        self.page.locator("#send_textarea").fill(text)
        self.click("#send_but")

    def run(self, command: str) -> None:
        self.page.evaluate(
            "(it) => void SillyTavern.getContext().executeSlashCommandsWithOptions(it)", command
        )

    def lore(self, act: Callable[[], None]) -> set[str]:
        """Return the lore that the model gets when somebody does something."""
        before = self.upstream.calls
        act()
        until = time.monotonic() + PATIENCE_S
        while self.upstream.calls == before or self.page.evaluate(IS_BUSY):
            assert time.monotonic() < until, self.page.locator("#toast-container").inner_text()
            self.page.wait_for_timeout(100)
        sent = self.upstream.requests[-1].body
        text = "\n".join(str(each["content"]) for each in sent["messages"])
        assert "[lorewell" not in text
        return {line.removeprefix("LORE ") for line in text.split("\n") if line[:5] == "LORE "}


def test_its_control_line_reaches_the_gateway(folder: Path, tmp_path: Path) -> None:
    with (
        chat_upstream() as upstream,
        running(
            tmp_path / "server.log",
            database_url=f"sqlite:///{tmp_path / 'lorewell.db'}",
            gateway_upstream_url=upstream.url,
        ) as server,
        sillytavern(folder, tmp_path) as url,
        opened(url) as page,
    ):
        bind(server)
        upstream.do(Turn(content="The bell rings."))
        page.evaluate(CONNECT, f"{server.url}/gateway/v1")
        page.wait_for_function(
            "() => !/No connection/i.test(document.querySelector('.online_status_text').innerText)"
        )
        page.evaluate(PREPARE, LINE)
        chat = Chat(page, upstream)
        name = page.evaluate("() => SillyTavern.getContext().name2")
        user = page.evaluate("() => SillyTavern.getContext().name1")
        named = f"{name}/{user}"
        assert chat.lore(lambda: chat.say("Hello 雾.")) == {named}
        swipe = "#chat .last_mes .swipe_right"
        assert chat.lore(lambda: chat.click(swipe)) - {"late"} == {named, "swipe"}
        for kind in ("regenerate", "continue", "impersonate"):
            found = chat.lore(partial(chat.click, f"#option_{kind}"))
            assert found - {"late"} == {named, kind}
        assert chat.lore(lambda: chat.run("/gen A word.")) - {"late"} == {named, "quiet"}
        assert chat.lore(lambda: chat.say("And now?")) == {named, "late"}
