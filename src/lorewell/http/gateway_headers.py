"""The headers of the gateway: those it reads, those it sends, and those it passes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote, unquote

from starlette.datastructures import Headers

from lorewell.app.gateway.chat import EnrichedChat
from lorewell.app.ports import Header
from lorewell.app.runtime.gateway import Gateway
from lorewell.errors import Fault, ValidationFailedError
from lorewell.http.ledgers import ledger_path
from lorewell.model.text import text_flaw

PROMPT = "X-Lorewell-Prompt"
CONVERSATION = "X-Lorewell-Conversation"
CHAR = "X-Lorewell-Char"
USER = "X-Lorewell-User"
UPSTREAM_AUTHORIZATION = "X-Upstream-Authorization"
ENTRIES = "X-Lorewell-Entries"
TOKENS = "X-Lorewell-Tokens"
POLICY = "X-Lorewell-Policy"
LEDGER = "X-Lorewell-Ledger"
CONTINUED = "X-Lorewell-Continued"
PREFIX = "X-Lorewell-Prefix-Tokens"
WARNINGS = "X-Lorewell-Warnings"

REQUEST_HEADERS = (PROMPT, CONVERSATION, CHAR, USER, UPSTREAM_AUTHORIZATION)
RESPONSE_HEADERS = (
    *("X-Request-ID", ENTRIES, TOKENS, POLICY, PROMPT, CONVERSATION, CONTINUED, LEDGER, PREFIX),
    WARNINGS,
)
# OpenAI's own library sends these from a browser.
STAINLESS = tuple(
    f"X-Stainless-{each}"
    for each in (
        *("Arch", "Lang", "OS", "Package-Version", "Retry-Count", "Runtime", "Runtime-Version"),
        "Timeout",
    )
)

# Other request headers may be meant for this service alone.
_FORWARDED = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"content-type",
        b"http-referer",
        b"idempotency-key",
        b"user-agent",
        b"x-title",
    }
)
_FORWARDED_PREFIXES = (b"openai-", b"x-stainless-")
# The response headers that a chat completions client reads. Others could be meant for a browser or
# a proxy in front of this service, and would count as this service's own.
_RELAYED = frozenset(
    {
        b"content-encoding",
        b"content-length",
        b"retry-after",
        b"retry-after-ms",
        b"x-should-retry",
    }
)
_RELAYED_PREFIXES = (b"anthropic-ratelimit-", b"openai-", b"ratelimit", b"x-ratelimit-")
_KINDS = frozenset({"application/json", "application/problem+json", "text/event-stream"})
_UTF_8 = frozenset({"charset=utf-8", 'charset="utf-8"'})
_OTHER_KIND = b"application/octet-stream"
_OWN_KEY = "bearer lw_"
_MOST_CHARS = {PROMPT: 200, CONVERSATION: 200, CHAR: 500, USER: 500}


def find_text(headers: Headers, name: str) -> str | None:
    """Return the text of a header: raw or percent-encoded UTF-8; None without one.

    Raises:
        ValidationFailedError: the text is invalid or too long.

    >>> find_text(Headers({"X-Lorewell-Prompt": "%E9%9B%BE%E6%B8%A1"}), "X-Lorewell-Prompt")
    '雾渡'
    """
    given = headers.get(name)
    if not given:
        return None
    try:
        text = unquote(given.encode("latin-1").decode(), errors="strict")
    except UnicodeDecodeError:
        raise _bad(name, "must be UTF-8, or percent-encoded UTF-8") from None
    flaw = text_flaw(text)
    if flaw or not text.isprintable():
        raise _bad(name, flaw or "must not hold control characters")
    if len(text) > _MOST_CHARS[name]:
        raise _bad(name, f"must hold at most {_MOST_CHARS[name]} characters")
    if name == CONVERSATION and "/" in text:
        raise _bad(name, "must not hold a slash")
    return text


def _bad(name: str, detail: str) -> ValidationFailedError:
    return ValidationFailedError.at(Fault("", detail, name))


def upstream_authorization(headers: Headers, gateway: Gateway, *, auth: bool) -> str | None:
    """Return the client's authorization for the upstream; None for the gateway's own key.

    A key of this service is never passed on.
    """
    given = headers.get(UPSTREAM_AUTHORIZATION)
    if given is None and gateway.pass_authorization and not auth:
        given = headers.get("authorization")
    if given is None or given.lower().startswith(_OWN_KEY):
        return None
    return given


def forwarded_headers(headers: Iterable[Header]) -> list[Header]:
    """Return the headers of a request that go to the upstream."""
    return [
        (name, value)
        for name, value in headers
        if name in _FORWARDED or name.startswith(_FORWARDED_PREFIXES)
    ]


def relayed_headers(headers: Iterable[Header]) -> list[Header]:
    """Return the headers of an upstream's answer that go to the client.

    A body that is neither JSON nor an event stream becomes `application/octet-stream`, which no
    browser shows.
    """
    given = list(headers)
    kinds = [value for name, value in given if name == b"content-type"]
    return [
        (b"content-type", _kind(kinds)),
        (b"cache-control", b"no-store"),
        *(
            (name, value)
            for name, value in given
            if name in _RELAYED or name.startswith(_RELAYED_PREFIXES)
        ),
    ]


def _kind(given: Sequence[bytes]) -> bytes:
    if len(given) != 1:
        return _OTHER_KIND
    kind, _, parameters = given[0].decode("latin-1").lower().partition(";")
    if kind.strip() not in _KINDS:
        return _OTHER_KIND
    return given[0] if parameters.strip() in _UTF_8 else kind.strip().encode()


def lore_headers(enriched: EnrichedChat | None) -> Mapping[str, str]:
    """Return the headers about the added lore."""
    if enriched is None:
        return {ENTRIES: "0"}
    headers = {
        ENTRIES: str(len(enriched.entry_ids)),
        TOKENS: str(enriched.worldbook_tokens),
        POLICY: enriched.policy,
        PROMPT: quote(enriched.prompt_id, safe=""),
        CONVERSATION: quote(enriched.conversation_id, safe=""),
    }
    if enriched.continued is not None:
        headers[CONTINUED] = enriched.continued.state
    if enriched.ledger is not None:
        headers[LEDGER] = ledger_path(enriched.ledger)
    if enriched.warning_count:
        headers[WARNINGS] = str(enriched.warning_count)
    if enriched.prefix is not None:
        headers[PREFIX] = f"{enriched.prefix.token_count}/{enriched.prefix.prompt_tokens}"
    return headers
