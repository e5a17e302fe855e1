"""JavaScript regular expressions as keys, in V8, with their cost bounded.

V8 runs in a process of its own. The first search that needs it starts that process, not an import.
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
