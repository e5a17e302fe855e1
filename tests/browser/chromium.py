"""A real browser: Chromium, from LOREWELL_TEST_CHROMIUM or from the PATH.

`python3 dev.py test` installs it where it may. A page that asks for anything off this machine, or
whose script fails, fails its test.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
MISSING: Final = (
    "There is no browser: install Chromium and a Chinese font (on Debian, `apt install chromium "
    "fonts-wqy-zenhei`), or name one in LOREWELL_TEST_CHROMIUM."
)
FLAGS: Final = (
    *("--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
SHOTS: Final = Path(__file__).resolve().parents[2] / "build" / "screenshots"
WIDTHS: Final = {"wide": 1100, "narrow": 400}
HEIGHT: Final = 800

Visit = Callable[..., Page]
Show = Callable[[Page, str], None]

expect.set_options(timeout=20_000)  # a busy machine is no failure


def find_browser() -> str:
    """Return where Chromium is; without one, skip, or fail where nothing may be skipped."""
    given = os.environ.get("LOREWELL_TEST_CHROMIUM")
    found = given or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(MISSING)
    return found


@pytest.fixture(name="browser", scope="module")
def browser_fixture() -> Iterator[Browser]:
    """Yield a browser of the module's own: while it runs, no test can start an event loop."""
    path = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(name="visit")
def visit_fixture(browser: Browser) -> Iterator[Visit]:
    """Yield a function that opens a URL as somebody with this language."""
    contexts: list[BrowserContext] = []
    asked: list[str] = []
    failed: list[str] = []

    def visit(url: str, locale: str = "en-GB") -> Page:
        context = browser.new_context(
            locale=locale, viewport={"width": WIDTHS["wide"], "height": HEIGHT}
        )
        contexts.append(context)
        context.on("request", lambda request: asked.append(request.url))
        context.on("weberror", lambda error: failed.append(str(error.error)))
        page = context.new_page()
        page.on("websocket", lambda socket: asked.append(socket.url))
        page.goto(url)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert not failed
    assert {urlsplit(url).hostname for url in asked} <= {"127.0.0.1"}, asked


@pytest.fixture(name="show")
def show_fixture() -> Show:
    """Return a function that keeps pictures of a page, and asks axe about each of them."""
    axe = Axe()

    def show(page: Page, name: str) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for size, width in WIDTHS.items():
                page.set_viewport_size({"width": width, "height": HEIGHT})
                page.screenshot(path=SHOTS / f"{name}-{size}-{scheme}.png", full_page=True)
                assert page.evaluate("document.documentElement.scrollWidth") <= width
            found = axe.run(page).response["violations"]
            serious = [each for each in found if each["impact"] in {"serious", "critical"}]
            assert not serious, serious
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": WIDTHS["wide"], "height": HEIGHT})

    return show
