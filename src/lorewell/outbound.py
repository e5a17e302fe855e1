"""Outbound HTTP: base URLs, credentials, and how long to wait before another attempt.

The client of the service and the adapters of model and embedding servers share these rules.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

import httpx

from lorewell.errors import Fault, ValidationFailedError

LONGEST_PAUSE_S: Final = 30.0
_MAX_DOUBLINGS: Final = 16  # keeps the power finite; every bound is reached long before
# Besides 5xx: a request that came too late, clashed, or came too early.
_RETRYABLE: Final = frozenset({408, 409, 429})
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseUrl:
    """The address of a server, with the credentials split off.

    Attributes:
        url: without user, password and fragment: httpx logs URLs.
        basic: the value of `Authorization` for the user and password; None if the URL has none.
        trust_env: whether proxies of the environment apply; none can reach a loopback address.
    """

    url: httpx.URL
    basic: str | None = field(repr=False)
    trust_env: bool

    def join(self, path: str) -> httpx.URL:
        """Return the URL of a path below this address."""
        return self.url.copy_with(path=self.url.path.rstrip("/") + path)

    def authorization(self, api_key: str, *, parameter: str) -> str | None:
        """Return the value of `Authorization`: the key if there is one, else the URL's own.

        Raises:
            ValidationFailedError: a header can't hold the key. The message does not quote it.
        """
        if not api_key:
            return self.basic
        if api_key.isascii() and api_key.isprintable() and " " not in api_key:
            return f"Bearer {api_key}"
        fault = Fault("", "must be printable ASCII characters without spaces", parameter=parameter)
        raise ValidationFailedError.at(fault)


def parse_base_url(text: str, *, parameter: str, example: str) -> BaseUrl:
    """Return the parts of a base URL.

    Args:
        text: an http or https URL with a host; it may hold a user and a password.
        parameter: the name of the setting or argument, for the error.
        example: a valid URL, for the error.

    Raises:
        ValidationFailedError: the URL is invalid. The message does not quote it, since it may
            hold a password.
    """
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        # Outside of the handler: that error may quote the password.
        raise ValidationFailedError.at(Fault("", f"must be a URL such as {example}", parameter))
    return BaseUrl(
        url=url.copy_with(userinfo=b"", fragment=None),
        basic=_basic(url.username, url.password) if url.userinfo else None,
        trust_env=not is_loopback(url.host),
    )


def _basic(username: str, password: str) -> str:
    """Return the credentials of RFC 7617, in UTF-8."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def is_web_address(url: str) -> bool:
    """Return whether a text is an http or https URL with a host.

    >>> is_web_address("http://127.0.0.1:8080/v1"), is_web_address("127.0.0.1"), is_web_address("")
    (True, False, False)
    """
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_loopback(name: str) -> bool:
    """Return whether a host name or address always means this machine.

    >>> is_loopback("127.1.2.3"), is_loopback("::1"), is_loopback("::ffff:127.0.0.1")
    (True, True, True)
    >>> is_loopback("0.0.0.0"), is_loopback("::"), is_loopback("::1%eth0")
    (False, False, False)
    """
    if name == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        address = address.ipv4_mapped or address
    return address.is_loopback


def may_pass(status: int) -> bool:
    """Return whether the same request may succeed later, after an answer of this status."""
    return status in _RETRYABLE or status >= _SERVER_ERROR


def retry_after_s(headers: Mapping[str, str], *, now: datetime | None = None) -> float:
    """Return the seconds that a server asks to wait; 0 if it does not, or not validly.

    The value has no upper bound; `Backoff.pause_s` sets one.

    Args:
        headers: of the answer; names in any case, as httpx gives them.
        now: the time that a date counts from; the clock's if not given.

    Source: RFC 9110 §10.2.3, seconds or an HTTP date.
    """
    text = headers.get("Retry-After", "")
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    if date.tzinfo is None:  # a date in the zone "-0000"
        date = date.replace(tzinfo=UTC)
    return max((date - (now or datetime.now(UTC))).total_seconds(), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The pauses between attempts, each twice as long as the one before.

    Attributes:
        first_s: seconds between the first attempt and the second.
        longest_s: the longest pause in seconds, also for one that the server asks for.
        jitter: whether to shorten pauses at random, by up to a half, so that many callers do not
            come back at the same time.
    """

    first_s: float
    longest_s: float = LONGEST_PAUSE_S
    jitter: bool = False

    def pause_s(self, made: int, asked_s: float = 0.0) -> float:
        """Return the seconds to wait before the next attempt.

        Args:
            made: the attempts so far, at least 1.
            asked_s: the seconds that the server asks to wait.
        """
        planned_s = self.first_s * 2.0 ** min(made - 1, _MAX_DOUBLINGS)
        if self.jitter:
            planned_s *= random.uniform(0.5, 1.0)  # noqa: S311  spreads load, guards nothing
        return min(max(planned_s, asked_s), self.longest_s)
