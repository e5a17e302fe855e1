"""A client of the service, blocking or async: one method a route, typed values, typed errors.

Every method is named as the route's operation in the service's OpenAPI document. What fails is
raised as the same class of `lorewell.errors` as inside the service.
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
