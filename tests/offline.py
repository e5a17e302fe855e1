"""Servers without a network: whatever leads off this machine is refused and noticed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

# What Python runs first in every process. Whatever leads off this machine is written down and
# refused, and so are other programs, since nobody watches those.
WATCH = """
import os, sys

sys.modules["uvloop"] = None  # it connects by its own code, which no hook sees
_ALLOWED = {"", "localhost", "::1", "0.0.0.0", *os.environ["WATCH_ALLOWED"].split()}
_NAMES = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
_CALLS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")


def _watch(event, args):
    if event in _NAMES:
        place = args[0]
    elif event in _CALLS:
        place = args[1][0] if isinstance(args[1], tuple) else ""
    elif event in _PROGRAMS:
        place = "program"
    else:
        return
    place = place.decode() if isinstance(place, bytes) else place or ""
    if place not in _ALLOWED and not place.startswith("127."):
        with open(os.environ["WATCH_LOG"], "a") as log:
            print(event, place, file=log)
        raise ConnectionRefusedError(f"{event} {place}: there is no network")


sys.addaudithook(_watch)
"""


class Watch:
    """Servers that are started now reach nothing but this machine and their database."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._log = folder / "attempts"
        (folder / "sitecustomize.py").write_text(WATCH, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        monkeypatch.setenv("WATCH_LOG", str(self._log))
        monkeypatch.setenv("WATCH_ALLOWED", "")
        self._allow = lambda places: monkeypatch.setenv("WATCH_ALLOWED", places)

    def allow(self, database_url: str) -> None:
        host = urlsplit(database_url).hostname
        if host is not None:
            found = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
            self._allow(" ".join({host, *found}))

    def attempts(self) -> list[str]:
        """Return what was tried, in order."""
        return self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []


@pytest.fixture(name="watch")
def watch_fixture(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Watch]:
    watch = Watch(tmp_path_factory.mktemp("watch"), monkeypatch)
    tried = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"
    command = [sys.executable, "-c", tried]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert "there is no network" in done.stderr
    noticed = watch.attempts()
    assert noticed
    yield watch
    assert watch.attempts() == noticed
