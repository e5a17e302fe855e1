"""Retries of a call, and the error after the last one. No write is repeated unknowingly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import httpx

from lorewell.client.calls import REQUEST_ID, Answer, ClientCall
from lorewell.client.problems import rebuild, unreachable, with_request_id
from lorewell.errors import LorewellError
from lorewell.outbound import Backoff, retry_after_s

# No byte of the request can have arrived.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# It may have arrived, in part or whole. Timeouts are not repeated: the service had its time.
_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError)
_BUSY = frozenset({502, 503})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often to try a service that is unreachable or not ready, and the pauses between.

    The pause doubles from `first_pause_s` to `longest_pause_s`. It is shortened at random, so that
    many clients do not come back at once. A pause that the service asks for (`Retry-After`) has the
    same upper bound.

    Attributes:
        attempts: the largest number of attempts for a call; 1 never repeats.
        first_pause_s: seconds between the first and the second attempt.
        longest_pause_s: the longest pause, in seconds.
    """

    attempts: int = 3
    first_pause_s: float = 0.1
    longest_pause_s: float = 2.0


class Attempts(Generic[Answer]):
    """The attempts for one call: returns the pause before the next one, or raises."""

    def __init__(self, call: ClientCall[Answer], retry: Retry, address: str) -> None:
        self._call = call
        self._retry = retry
        self._address = address
        self._made = 0
        self._backoff = Backoff(
            first_s=retry.first_pause_s, longest_s=retry.longest_pause_s, jitter=True
        )

    def answered(self, response: httpx.Response) -> Answer:
        """Return the parsed answer of a successful response.

        Raises:
            LorewellError: the body is invalid.
        """
        try:
            return self._call.read(response.content)
        except ValueError as error:
            message = f"The service at {self._address} returned an invalid answer."
            failure = LorewellError(message, reason="unreadable", status=response.status_code)
            raise with_request_id(failure, response.headers.get(REQUEST_ID)) from error

    def refused(self, response: httpx.Response) -> float:
        """Return the seconds to wait after an error response.

        Raises:
            LorewellError: the service's error, if the call is not sent again.
        """
        if response.status_code not in _BUSY or not self._call.may_repeat or self._is_last():
            raise rebuild(response)
        return self._backoff.pause_s(self._made, retry_after_s(response.headers))

    def failed(self, error: httpx.RequestError) -> float:
        """Return the seconds to wait after an exchange that broke off.

        Raises:
            UnavailableError: the call is not sent again.
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
        reason = str(error) or type(error).__name__
        message = f"The service at {self._address} can't be reached: {reason}."
        if isinstance(error, httpx.TimeoutException) and not is_unsent:
            message = f"The service at {self._address} did not answer in time."
        details: dict[str, object] = {"reason": type(error).__name__}
        if not is_unsent and self._call.method != "GET":
            message += " The request may have been carried out."
            if self._call.idempotency_key is not None:  # the caller can repeat the call with it
                details["idempotency_key"] = self._call.idempotency_key
        return unreachable(message, details)
