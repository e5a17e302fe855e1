"""Limits on the bytes of bodies and answers that a process holds for its clients."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from starlette.types import Scope

from lorewell.errors import OverloadedError
from lorewell.settings import Settings, env_name

SHARE: Final = 2  # a tenant may hold half of the limit, so that others have room
TENANT: Final = "lorewell.tenant"  # key of a request's state: its tenant
BODY: Final = "lorewell.body"  # key of a request's state: the `Hold` of its body


class HeldBytes:
    """Counts bytes by tenant, up to a limit. Belongs to one event loop.

    A single body is accepted whatever its size: other limits bound a single body.
    """

    def __init__(self, what: str, setting: str, most_bytes: int) -> None:
        """Begin with no bytes.

        Args:
            what: the name of the held objects, in the plural.
            setting: the setting of the limit.
            most_bytes: the limit.
        """
        self._what, self._setting, self._most_bytes = what, setting, most_bytes
        self._held: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """The number of bytes held."""
        return self._held.total()

    def take(self, tenant_id: str, size: int, own: int) -> None:
        """Count more bytes of a body or answer that holds `own` bytes so far.

        Raises:
            OverloadedError: the limit is reached.
        """
        of_tenant = self._held[tenant_id]
        share = self._most_bytes // SHARE
        if of_tenant > own and of_tenant + size > share:
            raise self._too_many("of this tenant ", share, f"half of {env_name(self._setting)}")
        if self.total > own and self.total + size > self._most_bytes:
            raise self._too_many("", self._most_bytes, env_name(self._setting))
        self._held[tenant_id] += size

    def give_back(self, tenant_id: str, size: int) -> None:
        """Subtract bytes."""
        self._held[tenant_id] -= size
        if not self._held[tenant_id]:
            del self._held[tenant_id]

    def _too_many(self, whose: str, limit: int, setting: str) -> OverloadedError:
        message = f"{self._what} {whose}have more than {limit} bytes, the limit: {setting}."
        return OverloadedError(message, limit_bytes=limit)


class Hold:
    """The bytes of one request's body or answer."""

    def __init__(self, held: HeldBytes, scope: Scope) -> None:
        self._held, self._scope = held, scope
        self._tenant_id = ""
        self._size = 0

    def add(self, size: int) -> None:
        """Hold more bytes.

        Raises:
            OverloadedError: the limit is reached.
        """
        if not self._size:
            self._tenant_id = str(self._scope["state"].get(TENANT, ""))
        self._held.take(self._tenant_id, size, self._size)
        self._size += size

    def release(self) -> None:
        """Release all bytes."""
        self._held.give_back(self._tenant_id, self._size)
        self._size = 0


class HeldOfProcess(NamedTuple):
    """The held bytes of a process: bodies in progress, and answers not read yet."""

    bodies: HeldBytes
    answers: HeldBytes


def held_of(settings: Settings) -> HeldOfProcess:
    """Return the counters of a process, at zero."""
    return HeldOfProcess(
        HeldBytes("Bodies", "max_bodies_bytes", settings.max_bodies_bytes),
        HeldBytes("Answers that wait to be read", "max_unread_bytes", settings.max_unread_bytes),
    )
