"""The headers of the gateway: what a client may say, what it is told, and what is passed on."""

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
PREFIX = "X-Lorewell-Prefix-Tokens"

ASKED = (PROMPT, CONVERSATION, CHAR, USER, UPSTREAM_AUTHORIZATION)
SHOWN = ("X-Request-ID", ENTRIES, TOKENS, POLICY, PROMPT, CONVERSATION, LEDGER, PREFIX)
# What OpenAI's own library says of itself in a browser.
STAINLESS = tuple(
    f"X-Stainless-{each}"
    for each in (
        *("Arch", "Lang", "OS", "Package-Version", "Retry-Count", "Runtime", "Runtime-Version"),
        "Timeout",
    )
)

# What else a client says may be meant for us alone.
_PASSED_ON = frozenset(
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
_PASSED_ON_IF_BEGUN = (b"openai-", b"x-stainless-")
# Of an answer, what a client of chat completions reads. Anything else could be meant for a browser
# or a proxy before this service, and would count as if this service had said it.
_PASSED_BACK = frozenset(
    {
        b"content-encoding",
        b"content-length",
        b"retry-after",
        b"retry-after-ms",
        b"x-should-retry",
    }
)
_PASSED_BACK_IF_BEGUN = (b"anthropic-ratelimit-", b"openai-", b"ratelimit", b"x-ratelimit-")
_KINDS = frozenset({"application/json", "application/problem+json", "text/event-stream"})
_UTF_8 = frozenset({"charset=utf-8", 'charset="utf-8"'})
_OTHER_KIND = b"application/octet-stream"
_OWN_KEY = "bearer lw_"
_MOST_CHARS = {PROMPT: 200, CONVERSATION: 200, CHAR: 500, USER: 500}


def find_text(headers: Headers, name: str) -> str | None:
    """Return what a header says: UTF-8 as it is, or percent-encoded.

    Raises:
        ValidationFailedError: it is no such text, or too long.

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
        raise _bad(name, flaw or "must hold no control characters")
    if len(text) > _MOST_CHARS[name]:
        raise _bad(name, f"must hold at most {_MOST_CHARS[name]} characters")
    if name == CONVERSATION and "/" in text:
        raise _bad(name, "must hold no slash")
    return text


def _bad(name: str, detail: str) -> ValidationFailedError:
    return ValidationFailedError.at(Fault("", detail, name))


def authorization_of(headers: Headers, gateway: Gateway, *, auth: bool) -> str | None:
    """Return what the upstream is told as the client's authorization; None for our own key.

    A key of this service is never passed on.
    """
    given = headers.get(UPSTREAM_AUTHORIZATION)
    if given is None and gateway.pass_authorization and not auth:
        given = headers.get("authorization")
    if given is None or given.lower().startswith(_OWN_KEY):
        return None
    return given


def passed_on(headers: Iterable[Header]) -> list[Header]:
    """Return the headers of a request that go to the upstream."""
    return [
        (name, value)
        for name, value in headers
        if name in _PASSED_ON or name.startswith(_PASSED_ON_IF_BEGUN)
    ]


def passed_back(headers: Iterable[Header]) -> list[Header]:
    """Return the headers of an upstream's answer that go to the client.

    A body that is neither JSON nor an event stream is said to be bytes: no browser shows them.
    """
    given = list(headers)
    kinds = [value for name, value in given if name == b"content-type"]
    return [
        (b"content-type", _kind(kinds)),
        (b"cache-control", b"no-store"),
        *(
            (name, value)
            for name, value in given
            if name in _PASSED_BACK or name.startswith(_PASSED_BACK_IF_BEGUN)
        ),
    ]


def _kind(given: Sequence[bytes]) -> bytes:
    if len(given) != 1:
        return _OTHER_KIND
    kind, _, parameters = given[0].decode("latin-1").lower().partition(";")
    if kind.strip() not in _KINDS:
        return _OTHER_KIND
    return given[0] if parameters.strip() in _UTF_8 else kind.strip().encode()


def told(enriched: EnrichedChat | None) -> Mapping[str, str]:
    """Return what is said of the lore that went in."""
    if enriched is None:
        return {ENTRIES: "0"}
    told = {
        ENTRIES: str(len(enriched.entry_ids)),
        TOKENS: str(enriched.worldbook_tokens),
        POLICY: enriched.policy,
        PROMPT: quote(enriched.prompt_id, safe=""),
        CONVERSATION: quote(enriched.conversation_id, safe=""),
    }
    if enriched.ledger is not None:
        told[LEDGER] = ledger_path(enriched.ledger)
    if enriched.prefix is not None:
        told[PREFIX] = f"{enriched.prefix.token_count}/{enriched.prefix.prompt_tokens}"
    return told
