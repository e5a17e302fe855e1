"""The largest body of each route: only as large as the route can use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

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


_BOOKS: Final = BodyLimit()
_TURN: Final = BodyLimit("max_turn_bytes")
_SMALL: Final = BodyLimit(most_bytes=256 * _KIB)
_TRIAL: Final = BodyLimit(
    most_bytes=4_096 * _KIB
)  # a state of 256 KiB with every character escaped
_REPLICA: Final = BodyLimit(most_bytes=MAX_REPLICA_BYTES)

LIMITS: Final[Mapping[str, BodyLimit]] = {
    "/v1/context/select": _TURN,
    "/v1/context/preview": _BOOKS,
    "/v1/sillytavern/activate": _TURN,
    "/v1/sillytavern/preview": _BOOKS,
    "/v1/sillytavern/replay": _TURN,
    "/v1/replica/activate": _REPLICA,
    "/v1/replica/preview": _REPLICA,
    "/v1/host/assemble": _TURN,
    "/v1/prompt-bindings": _SMALL,
    "/v1/search": _SMALL,
    "/v1/tokens/count": _TURN,
    "/v1/books": _BOOKS,
    "/v1/books/{book_id}/revisions": _BOOKS,
    "/v1/books/{book_id}/revisions/{n}/restore": _SMALL,
    "/v1/books/{book_id}/index": _SMALL,
    "/v1/imports": _BOOKS,
    "/v1/imports/preview": _BOOKS,
    "/v1/imports/files": _BOOKS,
    "/gateway/v1/chat/completions": _BOOKS,  # messages may hold pictures
    "/v1/conditions/try": _TRIAL,
    "/v1/admin/keys": _SMALL,
    "/api/worldbooks": _BOOKS,
    "/api/worldbooks/{name}": _SMALL,
    "/api/worldbooks/{name}/entries": _TURN,
    "/api/worldbooks/{name}/entries/{uid}": _TURN,
    "/api/worldbooks/{name}/import": _BOOKS,
    "/demo/api/chat": _SMALL,
}
"""By the template of the route's path."""


def limit_of(path: str) -> BodyLimit:
    """Return the limit of a route, by the template of its path."""
    return LIMITS[path.rstrip("/")]
