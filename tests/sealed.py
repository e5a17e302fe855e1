"""A process of its own that reads, writes and converts files while every door is watched.

`python sealed.py < files.json`, where the files are pairs of a name and a path. All are read first.
Then an audit hook, which nothing can remove, refuses and writes down whatever the interpreter
reports, but for what is harmless. At the end every one of `TRAPS` is called while a file is read,
to show that it would have been seen. It prints as JSON what was written down.
"""

from __future__ import annotations

import codecs
import ctypes
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lorewell import BookCreate, Entry, import_file
from lorewell.errors import LorewellError
from lorewell.formats import foreign
from lorewell.formats.export import EXPORTS, export_book, put_into_card
from pictures import charx, png, text, webp

# All else counts: open, socket.*, os.*, subprocess.*, import, exec, compile, ctypes.*, mmap, …
HARMLESS: Final = frozenset(["array.__new__", "builtins.id"])
BOOK = BookCreate(name="灯", entries=[Entry(id="塔", content="灯。", keys=["灯塔", "/a+/i"])])
CARD = {"spec": "chara_card_v3", "data": {"name": "โอดะ", "character_book": {"entries": []}}}

_written: list[str] = []
_is_sealed = False


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if not _is_sealed or event in HARMLESS:
        return
    _written.append(f"{event} {str(args)[:200]}")
    message = f"{event} is not allowed here"
    raise PermissionError(message)


def _extract() -> None:
    zipfile.ZipFile(io.BytesIO(charx(CARD))).extractall(tempfile.gettempdir())


# What a reader of files must never do.
TRAPS: Final[Mapping[str, Callable[[], object]]] = {
    "read": Path(__file__).read_bytes,
    "write": lambda: Path(tempfile.gettempdir(), "灯").write_bytes(b""),
    "list": lambda: os.listdir("/"),  # noqa: PTH208  what is called counts
    "mkdir": lambda: Path(tempfile.gettempdir(), "灯").mkdir(),
    "remove": lambda: Path("/there/is/none").unlink(),
    "remove tree": lambda: shutil.rmtree("/there/is/none"),
    "temporary file": tempfile.mkstemp,
    "extract": _extract,
    "socket": socket.socket,
    "look up": lambda: socket.getaddrinfo("localhost", 80),
    "system": lambda: os.system("true"),  # noqa: S605, S607  it is refused
    "program": lambda: subprocess.run(["true"], check=False),  # noqa: S607  it is refused
    "eval": lambda: eval("1"),  # noqa: S307  it is refused
    "exec": lambda: exec("1"),  # noqa: S102  it is refused
    "compile": lambda: compile("1", "灯", "eval"),
    "import": lambda: __import__("antigravity"),
    "library": lambda: ctypes.CDLL(None),
}


def run(name: str, data: bytes) -> None:
    """Read a file, write its book in every format, and put it into the file."""
    book = BOOK
    with suppress(LorewellError):
        book = import_file(data, name=name).book
    for target in EXPORTS:
        with suppress(LorewellError):
            export_book(book, target)
    with suppress(LorewellError):
        put_into_card(book, data)


def warm_up() -> None:
    """Load what the standard library loads at first use, and run what is harmless."""
    for codec in ("utf-16-le", "utf-16-be", "cp437"):
        codecs.lookup(codec)
    for data in (json.dumps(CARD).encode(), png(text(CARD)), webp(CARD), charx(CARD)):
        run("a", data)
    run("a.yaml", b"name: a\ngreeting: b")


def sprung(act: Callable[[], object]) -> list[str]:
    """Return what is recorded when reading a file does this in silence."""
    check, before = foreign.check_size, len(_written)

    def check_and_act(data: bytes, name: str) -> None:
        with suppress(Exception):
            act()
        check(data, name)

    foreign.check_size = check_and_act
    run("a.json", b'{"entries": {}}')
    foreign.check_size = check
    return _written[before:]


def main() -> None:
    """Run all files and spring all traps; print what was written down."""
    global _is_sealed  # noqa: PLW0603  a hook has no other way to know
    files = [(name, Path(path).read_bytes()) for name, path in json.load(sys.stdin)]
    warm_up()
    sys.addaudithook(_watch)
    _is_sealed = True
    for name, data in files:
        before = len(_written)
        run(name, data)
        _written[before:] = [f"{name}: {what}" for what in _written[before:]]
    found = {
        "files": len(files),
        "written": tuple(_written),
        "has_v8": any(module.startswith("py_mini_racer") for module in sys.modules),
    }
    traps = {name: sprung(act) for name, act in TRAPS.items()}
    _is_sealed = False
    print(json.dumps({"found": found, "traps": traps}))


if __name__ == "__main__":
    main()
