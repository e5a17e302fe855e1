"""JavaScript regular expressions as keys, in V8, with their cost bounded.

V8 is started by the first search that needs it, not by an import.
"""

from __future__ import annotations

from lorewell.jsregex.guard import MAX_SPENT_MS, MAX_TIMEOUTS, RegexGuard
from lorewell.jsregex.looks import Look, Outcome, Pattern, Seen, Verdict
from lorewell.jsregex.pool import switch_engine

__all__ = [
    "MAX_SPENT_MS",
    "MAX_TIMEOUTS",
    "Look",
    "Outcome",
    "Pattern",
    "RegexGuard",
    "Seen",
    "Verdict",
    "switch_engine",
]
