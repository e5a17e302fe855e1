"""The `curl` lines of READMEs and guides, sent to the service that `dev.py run` starts."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import module_from_spec, spec_from_file_location
from json import loads
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from chat_upstream import chat_upstream
from docs.manual import GUIDES, READMES, ROOT, code_blocks, section
from forked import CLI, finished, started
from process import environment, free_port
from service import PATIENT

ADDRESS = "http://127.0.0.1:8876"
HTTP = ("Over HTTP", "通过 HTTP")
GATEWAY = ("Through the gateway", "通过网关")
SERVICE = ("The service in 60 seconds", "60 秒跑起服务")
HOST = ("Prompts ready to send", "可以直接发送的提示词")
MEANING = ("Recall by meaning", "语义召回")
PROGRAM = "python3 dev.py run "
SILLYTAVERN = ("SillyTavern's rules over HTTP", "通过 HTTP 使用 SillyTavern 的规则")
READY_S = 60
# Read by curl from the folder that CURL_HOME names.
CURLRC = 'silent\nshow-error\nnoproxy = "*"\nwrite-out = "\\n%{http_code}"\n'
_BLOCK = re.compile(r"^```(sh|json|http)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Answer(NamedTuple):
    """A status, and the JSON that came with it."""

    status: int
    body: Any


Sender = Callable[[str, Path], Answer]


def serve_arguments(database: str) -> list[str]:
    """Return what `dev.py run` passes on, with another database."""
    spec = spec_from_file_location("dev", ROOT / "dev.py")
    assert spec
    assert spec.loader
    dev = module_from_spec(spec)
    spec.loader.exec_module(dev)
    arguments: list[str] = list(dev.SERVE)
    at = arguments.index("--database") + 1
    assert arguments[at].startswith("sqlite:///.sample/")
    arguments[at] = database
    return arguments


@contextmanager
def serving(folder: Path, **given: object) -> Iterator[str]:
    """Yield the address of the service, as `dev.py run` starts it, with these settings."""
    arguments = serve_arguments(f"sqlite:///{folder / 'lorewell.db'}")
    with running(arguments, folder, **given) as url:
        yield url


@contextmanager
def running(arguments: list[str], folder: Path, **given: object) -> Iterator[str]:
    """Yield the address of what a command serves at a free port."""
    port = free_port()
    log = folder / "log"
    given = PATIENT | {"handover_bytes": 0} | given  # a second process takes a while to start
    command = (*CLI, *arguments, "--port", str(port))
    process = started(command, environment(**given), log, folder=ROOT)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + READY_S
        with httpx.Client(base_url=url, trust_env=False) as client:
            while not _is_ready(client):
                assert process.poll() is None, log.read_text(encoding="utf-8")
                assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait()


def _is_ready(client: httpx.Client) -> bool:
    with suppress(httpx.TransportError):
        return client.get("/readyz").status_code == 200
    return False


def send_by_curl(line: str, folder: Path) -> Answer:
    (folder / ".curlrc").write_text(CURLRC, encoding="utf-8")
    done = subprocess.run(
        ["sh", "-c", line],  # noqa: S607  the shell that there is
        cwd=folder,
        env={**os.environ, "CURL_HOME": str(folder)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), line
    body, _, status = done.stdout.rpartition("\n")
    return Answer(int(status), loads(body))


def send_parsed(line: str, folder: Path) -> Answer:
    """Do what `curl` would do."""
    words = shlex.split(line)
    at = words.index("curl")
    given = f"{words[1]}\n".encode() if words[0] == "echo" else b""
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("url")
    parser.add_argument("-H", action="append", default=[])
    parser.add_argument("-d")
    parser.add_argument("-F")
    parser.add_argument("-X")
    parser.add_argument("-o")
    asked = parser.parse_args(words[at + 1 :])
    headers = [tuple(header.split(": ", 1)) for header in asked.H]
    with httpx.Client(trust_env=False, timeout=60) as client:
        if asked.F:
            form = re.fullmatch(r"(\w+)=@(?:-;filename=)?(.+)", asked.F)
            assert form, asked.F
            content = given or (folder / form[2]).read_bytes()
            answer = client.post(asked.url, headers=headers, files={form[1]: (form[2], content)})
        elif asked.d:
            name = asked.d.removeprefix("@")
            body = asked.d.encode() if name == asked.d else (folder / name).read_bytes()
            answer = client.request(asked.X or "POST", asked.url, headers=headers, content=body)
        else:
            answer = client.request(asked.X or "GET", asked.url, headers=headers)
    if asked.o:
        (folder / asked.o).write_bytes(answer.content)
    return Answer(answer.status_code, answer.json())


def curl() -> Sender:
    """Return what sends a line: `curl` itself where it is installed."""
    return send_by_curl if shutil.which("curl") and shutil.which("sh") else send_parsed


def check_shown(shown: Any, found: Any) -> None:
    """Assert that what is shown is there; a text may be cut off with `…`."""
    if isinstance(shown, dict):
        for name, member in shown.items():
            check_shown(member, found[name])
    elif isinstance(shown, list):
        assert len(shown) == len(found)
        for one, other in zip(shown, found, strict=True):
            check_shown(one, other)
    elif isinstance(shown, str) and shown.endswith("…"):
        assert found.startswith(shown[:-1])
    else:
        assert shown == found


@pytest.mark.parametrize("name", GUIDES)
@pytest.mark.parametrize(
    ("headings", "counts"), [(SERVICE, (5, 2)), (SILLYTAVERN, (2, 1)), (HOST, (1, 1))]
)
def test_curl_lines_give_what_the_guide_says(
    name: str, headings: tuple[str, ...], counts: tuple[int, int], tmp_path: Path
) -> None:
    book = next(block.text for block in code_blocks(name) if block.language == "json")
    (tmp_path / "low-ferry.json").write_text(book, encoding="utf-8")
    assert check_section(name, headings, tmp_path) == counts


@pytest.mark.parametrize("name", READMES)
def test_curl_lines_give_what_the_readme_says(name: str, tmp_path: Path) -> None:
    assert check_section(name, HTTP, tmp_path) == (2, 1)


def check_section(name: str, headings: tuple[str, ...], folder: Path) -> tuple[int, int]:
    """Send the lines of a section and compare answers; return how many were sent and shown."""
    send, last = curl(), Answer(0, None)
    sent = shown = 0
    with serving(folder) as url:
        for language, text in _BLOCK.findall(section(name, *headings)):
            if language == "json":
                check_shown(loads(text), last.body)
                shown += 1
                continue
            for line in text.splitlines():
                assert ADDRESS in line
                here = line.replace(ADDRESS, url)
                last = send(here, folder)
                is_new = "Idempotency-Key" in line
                assert last.status == (201 if is_new else 200), last.body
                again = send_parsed(here, folder)
                assert again.status == 200, again.body
                assert not is_new or again.body == {**last.body, "replayed": True}
                sent += 1
    return sent, shown


@pytest.mark.parametrize("name", READMES)
def test_gateway_lines_give_what_the_readme_says(name: str, tmp_path: Path) -> None:
    (_, lines), (_, shown) = _BLOCK.findall(section(name, *GATEWAY))
    start, ask = lines.splitlines()
    with serving(tmp_path):
        pass  # stores the sample books
    words = shlex.split(start.removeprefix(PROGRAM))
    assert words[-2:] == ["--database", "sqlite:///.sample/lorewell.db"]
    with chat_upstream() as upstream:
        upstream.reply("A crown.")
        words[words.index("--url") + 1] = upstream.url
        words[-1] = f"sqlite:///{tmp_path / 'lorewell.db'}"
        with running(words, tmp_path) as url:
            target, *_, body = shlex.split(ask.removeprefix("curl -i "))
            headers = {"Content-Type": "application/json"}
            answer = httpx.post(
                target.replace(ADDRESS, url), content=body, headers=headers, trust_env=False
            )
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == "A crown."
    for line in shown.splitlines():
        header, _, value = line.partition(": ")
        check_shown(value, answer.headers[header])


@pytest.mark.parametrize("name", GUIDES)
def test_recall_by_meaning_gives_what_the_guide_says(name: str, tmp_path: Path) -> None:
    (_, setup), (_, ask), (_, shown), _ = _BLOCK.findall(section(name, *MEANING))
    start, index = setup.splitlines()
    assert start == f"LOREWELL_EMBEDDER=local {PROGRAM}".strip()
    # A busy machine takes its time.
    with serving(tmp_path, embedder="local", embedding_query_timeout_s=60) as url:
        arguments = shlex.split(index.removeprefix(PROGRAM).replace(ADDRESS, url))
        assert finished([*CLI, *arguments], environment()).returncode == 0
        answer = curl()(ask.replace(ADDRESS, url), tmp_path)
    assert answer.status == 200
    check_shown(loads(shown), answer.body)


def test_the_lines_that_the_service_prints_work(tmp_path: Path) -> None:
    with serving(tmp_path) as url:
        printed = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
        lines = [line for line in printed if line.startswith("curl ")]
        assert len(lines) == 3
        for line in lines:
            assert url in line
            assert curl()(line, tmp_path).status == 200
