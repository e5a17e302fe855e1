"""How often a call is sent, and what is raised at last. A write is never sent twice by chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import httpx

from lorewell.client.calls import REQUEST_ID, Answer, ClientCall
from lorewell.client.problems import rebuild, unreachable, with_request_id
from lorewell.errors import LorewellError
from lorewell.outbound import Backoff, retry_after_s

# Nothing of the request can have arrived.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# It may have arrived, in part or whole. Time-outs are not among them: the service had its time.
_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError)
_BUSY = frozenset({502, 503})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How patient a client is with a service that can't be reached or is not ready.

    The pause doubles from `first_pause_s` to `longest_pause_s`, shortened by chance so that many
    clients do not come back at once; a pause that the service asks for counts up to the same bound.

    Attributes:
        attempts: how often a call is sent at most; 1 never repeats.
        first_pause_s: seconds between the first and the second.
        longest_pause_s: seconds between two attempts at most.
    """

    attempts: int = 3
    first_pause_s: float = 0.1
    longest_pause_s: float = 2.0


class Attempts(Generic[Answer]):
    """The attempts at one call: says how long to wait before the next, or raises."""

    def __init__(self, call: ClientCall[Answer], retry: Retry, address: str) -> None:
        self._call = call
        self._retry = retry
        self._address = address
        self._made = 0
        self._backoff = Backoff(
            first_s=retry.first_pause_s, longest_s=retry.longest_pause_s, jitter=True
        )

    def answered(self, response: httpx.Response) -> Answer:
        """Return the answer in a response that is a success.

        Raises:
            LorewellError: the answer can't be understood.
        """
        try:
            return self._call.read(response.content)
        except ValueError as error:
            message = f"The answer of the service at {self._address} can't be understood."
            failure = LorewellError(message, reason="unreadable", status=response.status_code)
            raise with_request_id(failure, response.headers.get(REQUEST_ID)) from error

    def refused(self, response: httpx.Response) -> float:
        """Return the seconds to wait after an answer that is no success.

        Raises:
            LorewellError: what the service answered, if the call is not to be sent again.
        """
        if response.status_code not in _BUSY or not self._call.may_repeat or self._is_last():
            raise rebuild(response)
        return self._backoff.pause_s(self._made, retry_after_s(response.headers))

    def failed(self, error: httpx.RequestError) -> float:
        """Return the seconds to wait after an exchange that broke off.

        Raises:
            UnavailableError: the call is not to be sent again.
        """
        is_unsent = isinstance(error, _UNSENT)
        may_repeat = is_unsent or (self._call.may_repeat and isinstance(error, _BROKEN))
        if not may_repeat or self._is_last():
            raise self._unreachable(error, is_unsent=is_unsent) from error
        return self._backoff.pause_s(self._made)

    def _is_last(self) -> bool:
        self._made += 1
        return self._made >= self._retry.attempts

    def _unreachable(self, error: httpx.RequestError, *, is_unsent: bool) -> LorewellError:
        why = str(error) or type(error).__name__
        message = f"The service at {self._address} can't be reached: {why}."
        if isinstance(error, httpx.TimeoutException) and not is_unsent:
            message = f"The service at {self._address} did not answer in time."
        details: dict[str, object] = {"reason": type(error).__name__}
        if not is_unsent and self._call.method != "GET":
            message += " It may have done what it was asked."
            if self._call.idempotency_key is not None:  # with it the caller can ask again
                details["idempotency_key"] = self._call.idempotency_key
        return unreachable(message, details)
