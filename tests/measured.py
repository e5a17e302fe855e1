"""A process of its own that reads each file in a fork of itself, and says what that took.

`python measured.py < files.json`, where the files are pairs of a name and a path; Linux alone.
It prints as JSON, for each file, the processor time in seconds, by how many bytes the memory grew
at most, C libraries included, and the name of the error if one was raised.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from lorewell import import_file
from lorewell.errors import LorewellError
from sealed import warm_up

STATUS = Path("/proc/self/status")


def memory_bytes(name: str) -> int:
    """Return a size out of the process's own status: `VmRSS` is now, `VmHWM` the highest yet."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", STATUS.read_text(encoding="ascii"), re.MULTILINE)
    assert found
    return int(found[1]) * 1024


def cost(work: Callable[[], object]) -> dict[str, Any]:
    before, start, error = memory_bytes("VmRSS"), time.process_time(), None
    try:
        work()
    except LorewellError as caught:
        error = type(caught).__name__
    taken_s = time.process_time() - start
    return {"cpu_s": taken_s, "grown_bytes": memory_bytes("VmHWM") - before, "error": error}


def forked(work: Callable[[], object]) -> dict[str, Any]:
    """Do the work in a fork of this process, and return what it took there."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(reading)
            gc.freeze()  # else it goes through all that was there before, and copies its pages
            os.write(writing, json.dumps(cost(work)).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, "the work ended the process or raised another error"
    found: dict[str, Any] = json.loads(said)
    return found


def read(name: str, path: Path) -> None:
    import_file(path.read_bytes(), name=name)


def main() -> None:
    files = json.load(sys.stdin)
    warm_up()
    gc.collect()
    gc.freeze()
    print(json.dumps([forked(partial(read, name, Path(path))) for name, path in files]))


if __name__ == "__main__":
    main()
