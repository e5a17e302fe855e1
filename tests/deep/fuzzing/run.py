"""Fuzzes one target: `python tests/deep/fuzzing/run.py TARGET FOLDER SECONDS`.

The folder keeps the inputs that reached something new in `corpus`, and those that broke something
in `crashes`, each beside the traceback. A fault does not end the run; of those that come from one
place, the smallest input is kept. Needs `src` and `tests` on PYTHONPATH.
"""

from __future__ import annotations

import hashlib
import sys
import time
import traceback
import zlib
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["lorewell"]):
    from deep.fuzzing.targets import MAX_BYTES, TARGETS, corpus_seeds

HANGS_SECONDS = 120  # by the clock: then the run ends
SLOW_SECONDS = 3  # of a CPU: a busy machine must not turn a file of MAX_BYTES into a slow one
MEMORY_MB = 2048
EXPORTED = 8  # one file in so many is written in every format, too: the same one always


class Crashes:
    """Keeps the inputs that broke something, one a place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes: dict[str, int] = {}

    def keep(self, data: bytes, error: Exception) -> None:
        """Write an input and its traceback, unless a smaller one from that place is there."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{type(error).__name__} {frames[-1].filename} {frames[-1].lineno}"
        name = f"crash-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
        if self._sizes.get(name, len(data) + 1) <= len(data):
            return
        self._sizes[name] = len(data)
        self._folder.joinpath(name).write_bytes(data)
        trace = "".join(traceback.format_exception(error))
        self._folder.joinpath(f"{name}.txt").write_text(trace, encoding="utf-8", errors="replace")


def main(name: str, folder: Path, seconds: str) -> None:
    """Fuzz a target for some seconds; this never returns."""
    target = TARGETS[name]
    corpus, crashes = folder / "corpus", folder / "crashes"
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(exist_ok=True)
    for data in (*target.seeds(), *corpus_seeds(name)):
        corpus.joinpath(f"seed-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
    kept = Crashes(crashes)

    def one(data: bytes) -> None:
        started = time.process_time()
        try:
            target.check(data, with_exports=zlib.crc32(data) % EXPORTED == 0)
            took = time.process_time() - started
            assert took < SLOW_SECONDS, f"it takes {took:.1f} s"
        except Exception as error:  # noqa: BLE001  any fault at all is what is looked for
            kept.keep(data, error)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        return target.mutate(data, max_size, Random(seed), atheris.Mutate)

    options = [
        f"-max_total_time={seconds}",
        f"-max_len={MAX_BYTES}",
        "-len_control=0",
        f"-timeout={HANGS_SECONDS}",
        f"-report_slow_units={HANGS_SECONDS}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-artifact_prefix={crashes}/",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], str(corpus), *options], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
