"""Settings that all tests share.

Hypothesis draws the same examples on every run, so that a red test is red for everyone. The
variable LOREWELL_HYPOTHESIS=deep asks for many more, at random. No deadlines: a busy machine is
no failure.
"""

import os

from hypothesis import HealthCheck, settings

from databases import (  # noqa: F401  fixtures
    make_database,
    migrated_database,
    migrated_file,
    postgres_server,
    postgres_url,
)

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile(
    "deep", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("LOREWELL_HYPOTHESIS", "ci"))
