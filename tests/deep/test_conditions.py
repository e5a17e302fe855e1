"""A hundred thousand random texts, each read as every kind of condition there is and weighed."""

from __future__ import annotations

import time
from collections.abc import Callable

from property.condition_texts import weigh_random_texts

TEXTS = 100_000
MOST_MS = 10  # a text; ten times what is wanted, for the sake of busy machines


def test_random_texts_never_fail_never_run_and_take_no_time(report: Callable[[str], None]) -> None:
    begin = time.perf_counter()
    weigh_random_texts(TEXTS, seed=17)
    each_ms = (time.perf_counter() - begin) / TEXTS * 1000
    report(f"{TEXTS:,} texts, {each_ms:.3f} ms each")
    assert each_ms < MOST_MS
