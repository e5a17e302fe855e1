"""The memory of books and of a selection, each measured in its own process."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

from bench.generate import fill
from bench.inputs import load_case, request_of, split_case
from bench.plan import Plan
from bench.report import Section, kib, mib
from bench.speed import answer
from lorewell import BookCreate, compile_book
from lorewell.engine.tokens import counter

PAGES = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return the resident memory of this process; its peak without /proc; 0 on Windows."""
    if sys.platform == "win32":
        return 0
    import resource  # noqa: PLC0415  not on Windows

    if PAGES.exists():
        return int(PAGES.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def memory(plan: Plan) -> Section:
    """Measure the memory of the middle and the large book, and of one selection from each."""
    shapes = ((plan.sizes[1], 1), (plan.grown, plan.grown_books))
    figures, rows = {}, []
    for size, books in shapes:
        code = f"from bench.memory import probe; probe({plan.sizes[0]}, {size}, {books})"
        found = _run(code)
        figures[str(size)] = found
        label = f"{size:,} entries in {books} book{'s' if books > 1 else ''}"
        peaks = [kib(found[f"{mode}_peak_bytes"]) for mode in ("selected", "full")]
        whole = found["compiled_bytes"]
        rows.append([label, mib(whole), f"{whole / size / 1024:.1f}", *peaks])
    return Section(
        name="memory",
        title="Memory",
        header=("", "compiled MiB", "KiB per entry", "one turn, KiB", "with explain full, KiB"),
        rows=rows,
        figures=figures,
        note="Compiled: growth of the process. One turn: peak of Python objects.",
    )


def _run(code: str) -> dict[str, int]:
    """Return the JSON that Python code prints in a new process, with this package on its path."""
    paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    figures: dict[str, int] = json.loads(done.stdout)
    return figures


def probe(small: int, size: int, books: int) -> None:
    """Print the memory of `size` entries in a number of books, as JSON."""
    case = fill(load_case(small)[0], size)
    documents = [book.model_dump_json() for book in split_case(case, books)]
    counter().count("load the vocabulary")
    compile_book(BookCreate.model_validate_json('{"name": "warm up"}'))
    gc.collect()
    before = resident_bytes()
    compiled = [compile_book(BookCreate.model_validate_json(text)) for text in documents]
    gc.collect()
    found = {"compiled_bytes": resident_bytes() - before}
    for mode in ("selected", "full"):
        call = answer(compiled, request_of(case, compiled, explain=mode))
        call()
        tracemalloc.start()
        call()
        found[f"{mode}_peak_bytes"] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    print(json.dumps(found))
