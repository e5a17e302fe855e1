"""A client that a generator makes of the OpenAPI document: nothing is skipped, and it works."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from process import Server, running
from service import BOOK, UNKNOWN_BOOK

PACKAGE = "generated_lorewell"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("server")
    url = f"sqlite:///{folder / 'lorewell.db'}"
    with running(folder / "log", database_url=url, log_level="warning") as server:
        yield server


@pytest.fixture(scope="module")
def generated(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the generated package."""
    folder: Path = tmp_path_factory.mktemp("generated")
    document, config = folder / "openapi.json", folder / "config.json"
    document.write_bytes(server.client.get("/openapi.json").content)
    config.write_text(json.dumps({"post_hooks": []}), encoding="utf-8")  # they run other programs
    options = ["--path", document, "--config", config, "--output-path", folder / PACKAGE]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate"),
            *map(str, options),
            *("--meta", "none", "--fail-on-warning"),
        ],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "arning" not in done.stdout + done.stderr
    return folder


class Generated:
    """The generated package: its models and operations by name."""

    def __init__(self, server: Server) -> None:
        self.models: Any = import_module(f"{PACKAGE}.models")
        package: Any = import_module(PACKAGE)
        self.client = package.Client(base_url=server.url)

    def __call__(self, operation: str, **given: Any) -> Any:
        """Return what an operation, like `books.create_book`, answers for the tenant `demo`."""
        module: Any = import_module(f"{PACKAGE}.api.{operation}")
        call: Callable[..., Any] = module.sync_detailed
        answer = call(client=self.client, tenant_id="demo", **given)
        assert answer.parsed is not None or answer.status_code == 204, answer
        return answer.parsed

    def make(self, model: str, document: dict[str, Any]) -> Any:
        return getattr(self.models, model).from_dict(document)


@pytest.fixture
def api(server: Server, generated: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Generated]:
    monkeypatch.syspath_prepend(str(generated))
    api = Generated(server)
    with api.client:
        yield api
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_every_operation_is_generated(server: Server, generated: Path) -> None:
    paths = server.client.get("/openapi.json").json()["paths"]
    operations = {
        f"{operation['tags'][0]}/{operation['operationId']}"
        for methods in paths.values()
        for operation in methods.values()
    }
    folder = generated / PACKAGE / "api"
    made = {f"{each.parent.name}/{each.stem}" for each in folder.glob("*/*.py")}
    assert {each for each in made if not each.endswith("__init__")} == operations


def test_a_generated_client_works(api: Generated) -> None:
    created = api("books.create_book", body=api.make("BookCreate", BOOK), idempotency_key="first")
    (book,) = created.books
    assert (book.revision, created.replayed) == (1, False)
    again = api("books.create_book", body=api.make("BookCreate", BOOK), idempotency_key="first")
    assert (again.books[0].book_id, again.replayed) == (book.book_id, True)

    next_one = api.make("PublishRequest", {**BOOK, "name": "Mole", "expected_revision": 1})
    published = api("revisions.publish_revision", book_id=book.book_id, body=next_one)
    assert published.revision == 2
    stored = api("books.get_book", book_id=book.book_id, revision=2)
    assert stored.revision.name == "Mole"
    assert stored.revision.entries[0].to_dict()["keys"] == ["lamp"]

    turn = {"books": [{"book_id": book.book_id}], "query": "Who lit the lamp?"}
    selection = api("context.select_for_turn", body=api.make("SelectRequest", turn))
    assert [block.entry_id for block in selection.blocks] == ["lamp"]
    assert [decision.facts.key for decision in selection.decisions] == ["lamp"]

    bindings = api.make("BindingsPut", {"bindings": [{"book_id": book.book_id, "revision": 1}]})
    api("bindings.put_bindings", prompt_id="harbour", body=bindings)
    resolved = api("bindings.resolve_bindings", prompt_id="harbour")
    assert [(each.book_id, each.revision) for each in resolved.books] == [(book.book_id, 1)]

    listed = api("books.list_books", limit=10)
    assert [each.name for each in listed.books] == ["Mole"]


def test_a_generated_client_reads_problems(api: Generated) -> None:
    problem = api("books.get_book", book_id=UNKNOWN_BOOK)
    assert isinstance(problem, api.models.Problem)
    assert (problem.status, problem.code) == (404, "book_not_found")
    assert problem.details.to_dict() == {"book_id": UNKNOWN_BOOK}

    turn = {"books": [{"book_id": UNKNOWN_BOOK}], "query": "Who?", "token_budget": -1}
    problem = api("context.select_for_turn", body=api.make("SelectRequest", turn))
    assert problem.code == "validation_error"
    assert [item.pointer for item in problem.errors] == ["/token_budget"]
