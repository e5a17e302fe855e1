"""Outbound HTTP: base URLs, credentials, `Retry-After` and the pauses between attempts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import pytest
from hypothesis import given, strategies as st

from lorewell.client import AsyncLorewellClient, LorewellClient
from lorewell.embedders import EmbedderOptions, make_embedder
from lorewell.errors import Fault, ValidationFailedError
from lorewell.outbound import (
    LONGEST_PAUSE_S,
    Backoff,
    BaseUrl,
    may_pass,
    parse_base_url,
    retry_after_s,
)
from lorewell.upstreams import OpenAiChat, UpstreamOptions
from lorewell.upstreams.passthrough import Passthrough

EXAMPLE = "http://127.0.0.1:1/v1"
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def parse(text: str) -> BaseUrl:
    return parse_base_url(text, parameter="url", example=EXAMPLE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:80",
        "ftp://host",
        "http://",
        "http:///x",
        "/x",
        "http://ann:hunter3",
    ],
)
def test_a_base_url_is_http_with_a_host(text: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        parse(text)
    assert refused.value.faults == (Fault("", f"must be a URL such as {EXAMPLE}", "url"),)
    assert refused.value.__context__ is None  # the error of httpx quotes the URL


def test_credentials_are_split_off() -> None:
    base = parse("https://ann:h%40nter3@lore.example/v1/?a=b#c")
    assert str(base.url) == "https://lore.example/v1/?a=b"
    assert str(base.join("/models")) == "https://lore.example/v1/models?a=b"
    basic = next(httpx.BasicAuth("ann", "h@nter3").auth_flow(httpx.Request("GET", base.url)))
    assert base.authorization("", parameter="key") == basic.headers["Authorization"]
    assert base.basic is not None
    assert base.basic not in repr(base)


def test_a_key_goes_before_the_credentials_of_the_url() -> None:
    assert parse("http://ann:x@a").authorization("sk-1", parameter="key") == "Bearer sk-1"
    assert parse("http://a").authorization("", parameter="key") is None


@pytest.mark.parametrize("key", ["a b", "钥", "a\n", "\x00"])
def test_a_key_that_no_header_holds_is_refused(key: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        parse("http://a").authorization(key, parameter="key")
    assert refused.value.faults[0].parameter == "key"
    assert key not in refused.value.faults[0].detail


@pytest.mark.parametrize("host", ["localhost", "127.9.9.9", "[::1]"])
def test_no_proxy_is_used_for_this_machine(host: str) -> None:
    assert not parse(f"http://{host}:8080").trust_env
    assert parse("http://lore.example").trust_env


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_what_may_pass(status: int) -> None:
    assert may_pass(status)
    assert not any(map(may_pass, (301, 400, 401, 404, 422)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("", 0.0),
        ("soon", 0.0),
        ("-5", 0.0),
        ("1.5", 0.0),
        ("１", 0.0),
        ("Sun, 01 Mar 2026 12:00:20 GMT", 20.0),
        ("Sun, 01 Mar 2026 12:00:20 -0000", 20.0),
        ("Sunday, 01-Mar-26 12:00:20 GMT", 20.0),
        ("Sun Mar  1 12:00:20 2026", 20.0),
        ("Sun, 01 Mar 2026 11:59:00 GMT", 0.0),
        ("Sun, 99 Mar 2026 11:59:00 GMT", 0.0),
        ("Sun, 01 Mar 99999999999999999999 12:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, expected: float) -> None:
    assert retry_after_s({"Retry-After": text}, now=NOW) == expected


def test_retry_after_may_be_absent() -> None:
    assert retry_after_s(httpx.Headers()) == 0.0
    assert retry_after_s(httpx.Headers({"retry-after": "3"})) == 3.0


@given(st.text(max_size=40) | st.from_regex(r"[A-Z][a-z]{2}, \d+ Mar \d+ \d+:\d+:\d+ [+-]\d+"))
def test_no_retry_after_raises(text: str) -> None:
    asked_s = retry_after_s({"Retry-After": text})
    assert 0 <= Backoff(first_s=1.0).pause_s(1, asked_s) <= LONGEST_PAUSE_S


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(first_s=0.5)
    pauses = [backoff.pause_s(made) for made in (1, 2, 3, 7, 8, 5_000)]
    assert pauses == [0.5, 1.0, 2.0, 30.0, 30.0, 30.0]


def test_a_longer_pause_that_the_server_asks_for_counts_up_to_the_longest() -> None:
    backoff = Backoff(first_s=1.0, longest_s=5.0)
    assert [backoff.pause_s(1, asked) for asked in (0.5, 3.0, 600.0, 1e400)] == [1, 3, 5, 5]


def test_jitter_takes_half_of_a_pause_at_most() -> None:
    backoff = Backoff(first_s=1.0, jitter=True)
    pauses = {backoff.pause_s(2) for _ in range(50)}
    assert len(pauses) > 1
    assert all(1.0 <= pause <= 2.0 for pause in pauses)


USERS: dict[str, Callable[[str, str], object]] = {
    "LOREWELL_GATEWAY_UPSTREAM": lambda url, key: Passthrough(url, api_key=key, timeout_s=1),
    "LOREWELL_EMBEDDING": lambda url, key: make_embedder(
        "openai", EmbedderOptions(url=url, api_key=key, model="m", dimensions=2)
    ),
    "chat": lambda url, key: OpenAiChat(UpstreamOptions(url=url, api_key=key, model="m")),
    "client": lambda url, key: LorewellClient(url, api_key=key),
    "async client": lambda url, key: AsyncLorewellClient(url, api_key=key),
}


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize("url", ["ftp://ann:hunter3@a", "http://ann:hunter3", "//ann:hunter3@a"])
def test_all_refuse_the_same_urls(name: str, url: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        USERS[name](url, "sk-1")
    (fault,) = refused.value.faults
    assert fault.detail.startswith("must be a URL such as http://127.0.0.1:")
    assert fault.parameter in (f"{name}_URL", "url", "base_url")
    assert "hunter3" not in str(refused.value)


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize("key", ["hunter3钥", "hunter3\n"])
def test_all_refuse_the_same_keys(name: str, key: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        USERS[name]("http://127.0.0.1:1", key)
    assert refused.value.faults[0].parameter in (f"{name}_API_KEY", "api_key")
    assert "hunter3" not in str(refused.value)
