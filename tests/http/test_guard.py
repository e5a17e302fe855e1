"""Hosts, origins, kinds of bodies: what another page in the same browser could try."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service import BOOK, Api, code, places, serving

JSON = {"Content-Type": "application/json"}
FOREIGN = "https://evil.example"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:9",
        "LOCALHOST:8876",
        "127.0.0.1:8876",
        "127.9.9.9",
        "[::1]",
        "[::1]:8876",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]:80",
        "[::FFFF:7F00:1]",
    ],
)
def test_loopback_is_answered_for(api: Api, host: str) -> None:
    assert api("GET", "/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8876",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.168.0.1",
        "0.0.0.0",  # noqa: S104  refused, not bound
        "[::]",
        "",
        "localhost@evil.example",
        "localhost:80:80",
        "lore.example",
        "[::1].evil.example",
        "[::1].evil.example:80",
        "[::1]evil.example",
        "[::1]@evil.example",
        "[::1]:80.evil.example",
        "[::1]:",
        "[::1",
        "::1",
        "::1]",
        "[[::1]]",
        "[::1%25lo]",
        "[::1%lo]",
        "[::ffff:192.168.0.1]",
        "[127.0.0.1].evil.example",
        "[127.0.0.1]",
        "evil.example#@localhost",
        "evil.example\\@localhost",
        "me@localhost",
        "localhost.",
        "127.0.0.1.",
        "127.1",
        "127.0.0.01",
        "0x7f.0.0.1",
        "2130706433",
        "localhost:",
        "localhost:-1",
        "localhost:80,evil.example",
        "localhost evil.example",
        " ",
        "*",
    ],
)
def test_no_other_host_is(api: Api, host: str) -> None:
    for path in ("/healthz", "/v1/books", "/nothing"):
        answer = api("GET", path, headers={"Host": host})
        assert (answer.status_code, code(answer)) == (421, "misdirected_request")


def test_a_host_comes_once(api: Api) -> None:
    for headers in (
        [("Host", "localhost"), ("Host", "localhost")],
        [("Host", "localhost"), ("Host", "evil.example")],
        [("Host", "evil.example"), ("Host", "localhost")],
    ):
        assert code(api("GET", "/healthz", headers=headers)) == "misdirected_request"


def test_what_is_no_host_is_refused_where_any_is_answered_for(database: str) -> None:
    with serving(database_url=database, allowed_hosts=("*",)) as api:
        for host in ("[::1].evil.example", "me@evil.example", "a b", ""):
            answer = api("GET", "/healthz", headers={"Host": host})
            assert code(answer) == "misdirected_request"


def test_more_hosts_can_be_named(database: str) -> None:
    hosts = ("lore.example", "other.example:81")
    with serving(database_url=database, allowed_hosts=hosts) as api:
        for host, status in (
            ("lore.example", 200),
            ("LORE.example:5", 200),
            ("other.example:81", 200),
            ("other.example", 421),
            ("other.example:82", 421),
        ):
            assert api("GET", "/healthz", headers={"Host": host}).status_code == status
    with serving(database_url=database, allowed_hosts=("*",)) as api:
        assert api("GET", "/healthz", headers={"Host": "any.example"}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        FOREIGN,
        "null",
        "http://localhost:5173",
        "http://localhost.evil.example",
        "",
        "localhost",
        "://localhost",
        "ftp://localhost",
        "evil://localhost",
        "http://evil.example://localhost",
        "http://me@localhost",
        "http://localhost/",
        "http://localhost.",
        "http://[::1].evil.example",
        "http://localhost http://evil.example",
    ],
)
def test_a_foreign_page_changes_nothing_and_selects_nothing(api: Api, origin: str) -> None:
    headers = {"Origin": origin}
    for method, path in (
        ("POST", "/v1/books"),
        ("POST", "/v1/context/select"),
        ("POST", "/v1/context/preview"),
        ("DELETE", "/v1/books/x"),
        ("PUT", "/v1/prompt-bindings"),
    ):
        answer = api(method, path, headers=headers, json=BOOK)
        assert (answer.status_code, code(answer)) == (403, "forbidden")
    read = api("GET", "/v1/books", headers=headers)
    assert read.status_code == 200
    assert "Access-Control-Allow-Origin" not in read.headers  # so no page can look at it
    preflight = api(
        "OPTIONS", "/v1/books", headers={**headers, "Access-Control-Request-Method": "POST"}
    )
    assert preflight.status_code == 405
    assert api("GET", "/v1/books").json()["books"] == []


def test_an_origin_comes_once(opened: Api) -> None:
    headers = [("Origin", "http://localhost"), ("Origin", FOREIGN)]
    named = ("Origin", "https://app.example")
    for given in (headers, headers[::-1], [headers[0], named], [named, headers[1]]):
        assert code(opened("POST", "/v1/books", json=BOOK, headers=given)) == "forbidden"
        read = opened("GET", "/v1/books", headers=given)
        assert code(read) == "forbidden"
        assert "Access-Control-Allow-Origin" not in read.headers


def test_its_own_page_may(api: Api) -> None:
    for origin in ("http://localhost", "https://localhost"):
        answer = api("POST", "/v1/books", json=BOOK, headers={"Origin": origin})
        assert answer.status_code == 201


@pytest.fixture
def opened(database: str) -> Iterator[Api]:
    origins = ("https://app.example/", "http://localhost:5173")
    with serving(database_url=database, cors_origins=origins) as api:
        yield api


def test_named_pages_may(opened: Api) -> None:
    headers = {"Origin": "https://app.example"}
    made = opened("POST", "/v1/books", json=BOOK, headers=headers)
    assert made.status_code == 201
    assert made.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert made.headers["Vary"] == "Origin"
    ask = {**headers, "Access-Control-Request-Method": "PUT"}
    preflight = opened("OPTIONS", "/v1/books", tenant=None, headers=ask)
    assert preflight.status_code == 200
    assert preflight.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "PUT" in preflight.headers["Access-Control-Allow-Methods"]
    assert "Idempotency-Key" in preflight.headers["Access-Control-Allow-Headers"]
    refused = opened("POST", "/v1/books", json=BOOK, headers={"Origin": FOREIGN})
    assert code(refused) == "forbidden"
    # Errors too can be read by the page.
    unknown = opened("GET", "/v1/books/x", headers=headers)
    assert unknown.headers["Access-Control-Allow-Origin"] == "https://app.example"


def test_a_preflight_is_answered_for_named_pages_and_our_hosts_alone(opened: Api) -> None:
    ask = {"Origin": FOREIGN, "Access-Control-Request-Method": "PUT"}
    refused = opened("OPTIONS", "/v1/books", tenant=None, headers=ask)
    assert refused.status_code == 400
    assert "Access-Control-Allow-Origin" not in refused.headers
    ask["Origin"], ask["Host"] = "https://app.example", "evil.example"
    elsewhere = opened("OPTIONS", "/v1/books", tenant=None, headers=ask)
    assert code(elsewhere) == "misdirected_request"
    assert "Access-Control-Allow-Origin" not in elsewhere.headers


def test_no_cache_gives_an_answer_for_one_origin_to_another(opened: Api, api: Api) -> None:
    for origin in ({}, {"Origin": FOREIGN}, {"Origin": "https://app.example"}):
        assert opened("GET", "/v1/books", headers=origin).headers["Vary"] == "Origin"
    assert "Vary" not in api("GET", "/v1/books").headers


def test_no_origin_stands_for_any(database: str) -> None:
    with serving(database_url=database, cors_origins=("*",)) as api:
        read = api("GET", "/v1/books", headers={"Origin": FOREIGN})
        assert "Access-Control-Allow-Origin" not in read.headers
        assert code(api("POST", "/v1/books", json=BOOK, headers={"Origin": FOREIGN})) == "forbidden"


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/jsonp",
        "application/octet-stream",
    ],
)
def test_what_a_form_can_send_is_no_json(api: Api, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = api("POST", "/v1/books", content=b'{"name": "B"}', headers=headers)
    assert (answer.status_code, code(answer)) == (415, "unsupported_media_type")
    assert answer.json()["details"] == {"expected": "application/json"}


@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=UTF-8", "Application/JSON;charset=utf8"]
)
def test_json_may_name_its_charset(api: Api, kind: str) -> None:
    headers = {"Content-Type": kind}
    answer = api("POST", "/v1/books", content=b'{"name": "B"}', headers=headers)
    assert answer.status_code == 201


def test_packed_bodies_are_refused(api: Api) -> None:
    headers = {**JSON, "Content-Encoding": "gzip"}
    answer = api("POST", "/v1/books", content=b"\x1f\x8b", headers=headers)
    assert code(answer) == "unsupported_media_type"


def test_the_file_doors_want_forms(api: Api) -> None:
    for path in ("/v1/imports/preview", "/v1/imports/files"):
        answer = api("POST", path, json={})
        assert code(answer) == "unsupported_media_type"
        assert answer.json()["details"] == {"expected": "multipart/form-data"}


@pytest.mark.parametrize("name", ["Authorization", "Content-Type", "Idempotency-Key"])
def test_a_header_that_counts_comes_once(api: Api, name: str) -> None:
    headers = [(name, "a"), (name, "b")]
    answer = api("POST", "/v1/books", content=b"{}", headers=headers)
    assert (code(answer), places(answer)) == ("validation_error", [name.lower()])


def test_a_header_without_text_is_refused(api: Api) -> None:
    answer = api("GET", "/v1/books", headers={"X-Any": b"a\x00"})
    assert places(answer) == ["x-any"]
