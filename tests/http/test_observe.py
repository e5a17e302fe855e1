"""Log lines and figures: enough to see what goes on, nothing that anybody wrote."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from fakes import MemoryStore
from hostile import HOSTILE, check_shown
from lorewell.http import logs
from lorewell.settings import load_settings
from replica_books import keyed
from service import BOOK, Api, Json, bearer, serving

SECRET = "xyzzy-nobody-may-read-this"  # noqa: S105  no password


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Yield what is logged as JSON."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure(load_settings(log_format="json", log_level="debug"))
    structlog.configure(cache_logger_on_first_use=False)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = before
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[Json]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_request_is_one_line(api: Api, written: io.StringIO) -> None:
    api("GET", "/v1/books/nothing", headers={"X-Request-ID": "find-me"})
    (line,) = [line for line in lines(written) if line["event"] == "request"]
    assert line.pop("ms") >= 0
    assert line.pop("timestamp")
    assert line == {
        "event": "request",
        "level": "info",
        "method": "GET",
        "route": "/v1/books/{book_id}",
        "status": 404,
        "request_id": "find-me",
    }


def test_nothing_that_somebody_wrote_is_logged(database: str, written: io.StringIO) -> None:
    with serving(database_url=database, auth=True) as api:
        key = bearer(api, "read", "write", "admin", tenants=("*",))
        entry = {"id": SECRET, "content": SECRET, "keys": [SECRET], "title": SECRET}
        book_id = api.create({"name": SECRET, "entries": [entry]}, headers=key)
        turn = {"books": [{"book_id": book_id}], "query": SECRET}
        api("POST", "/v1/context/select", json=turn, headers=key)
        api("POST", "/v1/search", json=turn, headers=key)
        api("POST", "/v1/tokens/count", json={"texts": [SECRET]}, headers=key)
        api("POST", "/v1/books", json={"name": SECRET, SECRET: 1}, headers=key)
        api("POST", "/v1/books", json=BOOK, headers={**key, "Idempotency-Key": SECRET})
        api("GET", f"/v1/books?tenant_id=demo&q={SECRET}", tenant=None, headers=key)
        api("GET", f"/{SECRET}")
        api("PUT", "/v1/prompt-bindings", params={"prompt_id": SECRET}, headers=key)
        files = [("file", (SECRET, f'{{"entries": {SECRET}}}'.encode()))]
        api("POST", "/v1/imports/preview", files=files, headers=key)
        api("GET", "/v1/books", headers={"Authorization": f"Bearer {SECRET}"})
    assert len(lines(written)) >= 11
    assert SECRET not in written.getvalue()
    assert key["Authorization"].split()[1] not in written.getvalue()
    assert "demo" not in written.getvalue()


class FailingStore(MemoryStore):
    async def read(self, work: Callable[[Any], Any]) -> Any:
        raise RuntimeError(SECRET, work)


def test_a_failure_is_logged_with_its_place_and_without_its_text(written: io.StringIO) -> None:
    with serving(FailingStore()) as api:
        api("GET", "/v1/books", headers={"X-Request-ID": "find-me"})
    (line,) = [line for line in lines(written) if line["event"] == "failure"]
    assert (line["error"], line["request_id"]) == ("RuntimeError", "find-me")
    assert line["where"][-1].startswith("read (")
    assert SECRET not in written.getvalue()


def test_lines_of_other_libraries_come_without_tracebacks(written: io.StringIO) -> None:
    try:
        int(SECRET)
    except ValueError:
        logging.getLogger("uvicorn.error").exception("It failed.")
    logging.getLogger("uvicorn.access").info("GET /%s", SECRET)
    (line,) = lines(written)
    assert (line["event"], line["error"], line["level"]) == ("It failed.", "ValueError", "error")


def test_console_lines_are_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    before = list(root.handlers)
    logs.configure(load_settings(log_level="warning"))
    logger = structlog.get_logger()
    logger.info("not shown")
    logger.warning("shown", status=200)
    root.handlers[:] = before
    monkeypatch.undo()
    shown = capsys.readouterr().err
    assert "not shown" not in shown
    assert "status=200" in shown


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Yield what is logged for people, as on a terminal with colours."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure(load_settings(log_level="debug"))
    structlog.configure(cache_logger_on_first_use=False)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = before
    root.setLevel(level)


class Odd:
    def __repr__(self) -> str:
        return HOSTILE


def test_no_text_forges_a_console_line(console: io.StringIO) -> None:
    logger, other = structlog.get_logger(), logging.getLogger("uvicorn.error")
    logger.info(HOSTILE, bare=HOSTILE.replace(" ", ""), quoted=HOSTILE, odd=Odd(), many=[HOSTILE])
    other.warning("Invalid HTTP request received: %s", HOSTILE)
    try:
        int(HOSTILE)
    except ValueError:
        logger.exception("failed")
        other.exception("failed")
    assert console.getvalue().count("\n") == 4
    check_shown(console.getvalue())
    assert r"[/] [red]r[/red]" in console.getvalue()
    assert r"\x1b[2J" in console.getvalue()
    assert console.getvalue().count("ValueError") == 2


def test_no_text_forges_a_line_of_json(written: io.StringIO) -> None:
    structlog.get_logger().info(HOSTILE, value=HOSTILE)
    logging.getLogger("uvicorn.error").warning("%s", HOSTILE)
    first, second = lines(written)
    assert (first["event"], first["value"], second["event"]) == (HOSTILE, HOSTILE, HOSTILE)
    assert written.getvalue().isascii()
    assert written.getvalue().count("\n") == 2


def test_names_in_books_forge_no_line(api: Api, console: io.StringIO) -> None:
    entries = [keyed(HOSTILE, HOSTILE, comment=HOSTILE)]
    body = {
        "worldBookData": {"globalBooks": [{"id": HOSTILE}]},
        "mes": HOSTILE,
        "books": {HOSTILE: {"entries": entries}},
    }
    assert api("POST", "/v1/replica/activate", json=body).status_code == 200
    assert "[WorldBook] total 1" in console.getvalue()
    check_shown(console.getvalue())


def figures(api: Api) -> dict[str, float]:
    answer = api("GET", "/metrics", tenant=None)
    assert answer.headers["Content-Type"].startswith("text/plain")
    rows = [row for row in answer.text.splitlines() if not row.startswith("#")]
    return {name: float(value) for name, _, value in (row.rpartition(" ") for row in rows)}


def test_figures_are_counted(api: Api) -> None:
    book_id = api.create()
    turn = {"books": [{"book_id": book_id}], "query": "lamp"}
    for _ in range(3):
        api("POST", "/v1/context/select", json={**turn, "strategy": "hybrid"})
    api("GET", f"/v1/books/{'a' * 50}")
    api("GET", "/no/route")
    api("BREW", "/v1/books")
    seen = figures(api)
    select = 'method="POST",route="/v1/context/select"'
    assert seen[f'lorewell_http_requests_total{{{select},status="200"}}'] == 3
    assert seen[f"lorewell_http_request_seconds_count{{{select}}}"] == 3
    missing = 'method="GET",route="/v1/books/{book_id}",status="404"'
    assert seen[f"lorewell_http_requests_total{{{missing}}}"] == 1
    unrouted = 'method="GET",route="none",status="404"'
    assert seen[f"lorewell_http_requests_total{{{unrouted}}}"] == 1
    odd = 'method="OTHER",route="/v1/books",status="405"'
    assert seen[f"lorewell_http_requests_total{{{odd}}}"] == 1
    assert seen["lorewell_select_seconds_count"] == 3
    assert seen['lorewell_degraded_total{reason="vector_disabled"}'] == 3
    assert seen["lorewell_cache_misses_total"] == 1
    assert seen["lorewell_cache_hits_total"] == 2
    assert seen["lorewell_cache_evictions_total"] == 0
    assert seen["lorewell_cache_bytes"] > 0
    assert seen["lorewell_compile_seconds_total"] > 0


def test_figures_name_no_tenant_and_no_book(api: Api) -> None:
    book_id = api.create(tenant="somebody")
    api("GET", f"/v1/books/{book_id}", tenant="somebody")
    text = api("GET", "/metrics", tenant=None).text
    assert book_id not in text
    assert "somebody" not in text


def test_log_tells_what_the_policy_replica_did_and_no_text(api: Api, written: io.StringIO) -> None:
    entries = [
        keyed("tower", "灯塔", content=SECRET, comment=SECRET, position=4),
        keyed("king", "king", content=SECRET),
    ]
    body = {
        "worldBookData": {"globalBooks": [{"id": "雾"}]},
        "mes": f"灯塔 {SECRET}",
        "chatHistory": [SECRET],
        "books": {"雾": {"entries": entries}},
    }
    api("POST", "/v1/replica/activate", json=body)
    logged = [line["event"] for line in lines(written) if line["event"].startswith("[World")]
    assert logged == [
        "[WorldBook] loaded 雾: 2 entries (global)",
        "[WorldBook-Check] keyword tower: 灯塔 in the user's text",
        "[WorldBook-Check] not_triggered king",
        "[WorldBook] active tower: keyword, 系统提示/作者注释",
        "[WorldBook] total 1",
        "[WorldBook] 系统提示/作者注释 (4): 1",
        "[WorldBook] keyword: 1",
    ]
    assert SECRET not in written.getvalue()
    for level, totals in (("info", 2), ("warning", 2)):
        with contextlib.redirect_stderr(written):
            logs.configure(load_settings(log_format="json", log_level=level))
        structlog.configure(cache_logger_on_first_use=False)
        api("POST", "/v1/replica/activate", json=body)
        assert written.getvalue().count("[WorldBook] total") == totals
    assert written.getvalue().count("[WorldBook-Check] keyword") == 1
