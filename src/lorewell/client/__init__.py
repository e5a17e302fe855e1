"""A client of the service, blocking or async: one method per route, typed values, typed errors.

Each method has the name of its operation in the service's OpenAPI document. Errors are raised as
the same classes of `lorewell.errors` as inside the service.
"""

from lorewell.client.asynchronous import AsyncLorewellClient
from lorewell.client.attempts import Retry
from lorewell.client.blocking import LorewellClient
from lorewell.client.calls import DEFAULT_URL
from lorewell.client.turns import connect

__all__ = [
    "DEFAULT_URL",
    "AsyncLorewellClient",
    "LorewellClient",
    "Retry",
    "connect",
]
