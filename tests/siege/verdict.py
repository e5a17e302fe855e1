"""What must hold during an attack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from siege.innocent import Seen

MOST_P99_MS = 250.0
MOST_REFUSAL_BYTES = 256 * 1_024
GRACE_S = 10.0
_FAILURES = ("500", "502", "504", "503 storage_unavailable", "none")


def late(seen: Mapping[str, Seen], most_ms: float = MOST_P99_MS) -> Sequence[str]:
    """Return the kinds of innocent requests that waited for too long at p99."""
    return [kind for kind, each in seen.items() if each.p99_ms >= most_ms]


def faults_of(
    seen: Mapping[str, Seen], tallies: Mapping[str, Mapping[str, int]], log: str
) -> Iterator[str]:
    """Yield the faults of answers and logs.

    Args:
        seen: what became of innocent requests.
        tallies: what hostile callers got, as `Tally.members` has it.
        log: of the service.
    """
    wrong = sum((each.wrong for each in seen.values()), Counter[str]())
    if wrong:
        yield shown(wrong)
    for what, size in tallies["largest"].items():
        if what[0] in "45" and size > MOST_REFUSAL_BYTES:
            yield f"a refusal of {size} bytes: {what}"
    for when in ("got", "after"):
        failed = [what for what in tallies[when] if what.startswith(_FAILURES)]
        if failed:
            yield f"{when}: {', '.join(failed)}"
    if "Traceback" in log:
        yield f"logged {log[log.index('Traceback') :].splitlines()[-1][:200]}"


def shown(counts: Mapping[str, int]) -> str:
    """Return counts in words.

    >>> shown({"200": 3, "closed": 1})
    '200 × 3, closed × 1'
    """
    return ", ".join(f"{what} × {count}" for what, count in counts.items())
