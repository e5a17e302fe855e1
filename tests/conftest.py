"""Settings that all tests share.

Hypothesis draws the same examples on every run, so that a red test is red for everyone. The
variable LOREWELL_HYPOTHESIS=deep asks for many more, at random, and `fast` for fewer. No deadlines:
a busy machine is no failure.
"""

import gc
import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from databases import (  # noqa: F401  fixtures
    make_database,
    migrated_database,
    migrated_file,
    postgres_server,
    postgres_url,
)

settings.register_profile("ci", max_examples=60, derandomize=True, deadline=None)
settings.register_profile("fast", settings.get_profile("ci"), max_examples=25)
settings.register_profile(
    "deep", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("LOREWELL_HYPOTHESIS", "ci"))

_LOGGERS = ("", "alembic", "httpcore", "httpx", "lorewell", "lorewell.sockets", "uvicorn.access")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let long tests begin first: else other workers are idle while one of them ends."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Keep the collected tests, a million objects, out of each later round of the collector."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _own_log_levels() -> Iterator[None]:
    """Undo what a test set up for a whole process: the next one looks at logs too."""
    before = [(logger, logger.level) for logger in map(logging.getLogger, _LOGGERS)]
    yield
    for logger, level in before:
        logger.setLevel(level)
