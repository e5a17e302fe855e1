"""JavaScript regular expressions as keys, run in V8 with bounded cost.

V8 runs in a separate process, which the first search with a regex key starts.
"""

from __future__ import annotations

from lorewell.jsregex.guard import MAX_SPENT_MS, MAX_TIMEOUTS, RegexGuard
from lorewell.jsregex.looks import Look, LookResult, Parts, Pattern, PatternOutcome, Verdict
from lorewell.jsregex.pool import switch_engine

__all__ = [
    "MAX_SPENT_MS",
    "MAX_TIMEOUTS",
    "Look",
    "LookResult",
    "Parts",
    "Pattern",
    "PatternOutcome",
    "RegexGuard",
    "Verdict",
    "switch_engine",
]
