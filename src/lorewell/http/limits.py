"""The largest body of each route: only as large as the route can use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.types import Scope

from lorewell.errors import BodyTooLargeError
from lorewell.settings import Settings, env_name

MAX_REPLICA_BYTES: Final = 16 * 1024 * 1024  # docs/rules/replica.md §6.2
_KIB: Final = 1024
_WHOLE: Final = "max_body_bytes"


class BodyLimit(NamedTuple):
    """The largest size of a body.

    Attributes:
        setting: the setting of the limit, unless `most_bytes` is lower.
        most_bytes: the limit of the contract, if it bounds everything in the body; no setting can
            make a larger body valid.
    """

    setting: str = _WHOLE
    most_bytes: int | None = None

    def bytes_in(self, settings: Settings) -> int:
        """Return the limit, at most that of all bodies."""
        all_bodies = settings.max_body_bytes
        own = all_bodies if self.setting == _WHOLE else settings.max_turn_bytes
        return min(all_bodies, own, self.most_bytes or all_bodies)

    def check(self, size: int, settings: Settings) -> None:
        """Raise BodyTooLargeError if a body of this size is too large."""
        limit = self.bytes_in(settings)
        if size <= limit:
            return
        if limit == self.most_bytes:
            raise BodyTooLargeError(
                f"The body is larger than {limit} bytes, the limit of this route.",
                limit_bytes=limit,
            )
        setting = env_name(_WHOLE if limit == settings.max_body_bytes else self.setting)
        raise BodyTooLargeError(
            f"The body is larger than {limit} bytes, the limit; {setting} sets it.",
            limit_bytes=limit,
        )

    def describe(self) -> str:
        """Return the limit as a sentence, for the documentation of a route."""
        if self.most_bytes is not None:
            return f"At most {self.most_bytes} bytes."
        default = Settings.model_fields[self.setting].default
        return f"At most {default} bytes, unless {env_name(self.setting)} sets another limit."


BOOKS: Final = BodyLimit()
TURN: Final = BodyLimit("max_turn_bytes")
SMALL: Final = BodyLimit(most_bytes=256 * _KIB)
TRIAL: Final = BodyLimit(most_bytes=4_096 * _KIB)  # a state of 256 KiB with every character escaped
REPLICA: Final = BodyLimit(most_bytes=MAX_REPLICA_BYTES)


class RequestBody(dict[str, Any]):
    """The body of a route, as its OpenAPI operation declares it.

    Attributes:
        limit: the limit, which the declaration describes.
    """

    def __init__(self, content: Mapping[str, Any], limit: BodyLimit) -> None:
        super().__init__(description=limit.describe(), required=True, content=content)
        self.limit = limit


def limit_of(scope: Scope) -> BodyLimit:
    """Return the limit of the route that answers a request, from the route's declaration."""
    body: RequestBody = scope["route"].openapi_extra["requestBody"]
    return body.limit
