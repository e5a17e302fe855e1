"""Commands on a service and its database: straight on a file, and the same through a service."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lorewell import errors
from lorewell.cli.backup import pg_dump_command
from lorewell.cli.failures import exit_code
from lorewell.client import LorewellClient, Retry
from lorewell.errors import LorewellError
from lorewell.http import server
from lorewell.model import BookCreate
from lorewell.settings import Settings
from lorewell.settings_table import list_settings
from process import environment, free_port, running
from program import Done, Lorewell

HARBOUR: dict[str, Any] = {
    "name": "Harbour \x1b[2J",
    "description": "Of\nlamps.",
    "metadata": {"number": 1.0},
    "entries": [
        {"id": "lamp", "title": "灯", "content": "A lamp.", "keys": ["lamp"], "probability": 100.0},
        {"id": "mole", "content": "A mole.", "constant": True, "enabled": False},
        {"content": "Stone.", "required": True, "runtime_requirements": ["macros"]},
    ],
}
WORLD = {"entries": {"0": {"uid": 0, "key": [f"k{n}" for n in range(20)], "content": "A lamp."}}}
EMPTY_CARD = {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Oda"}}
UNKNOWN = "99999999-9999-4999-8999-999999999999"


class Service(Lorewell):
    """The program; what it works on is in the environment."""

    def __call__(self, *args: str | Path) -> Done:
        done = super().__call__(*args)
        assert done.code == 0 or done.err.count("\n") == 1 or "Usage:" in done.err, done.err
        return done

    def create(self, content: object = HARBOUR) -> str:
        """Store a book and return its id."""
        (made,) = self("book", "create", self.file("book.json", content), "--json").json["books"]
        return str(made["book_id"])


@pytest.fixture
def lorewell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Service:
    for name in list(os.environ):
        if name.startswith("LOREWELL_") and not name.startswith("LOREWELL_TEST"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LOREWELL_DATABASE_URL", f"sqlite:///{tmp_path / 'lorewell.db'}")
    return Service(tmp_path, monkeypatch, capfd, columns=200)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("served")
    with running(folder / "log", database_url=f"sqlite:///{folder / 'books.db'}") as served:
        yield served.url


@pytest.fixture(params=["database", "service"])
def anywhere(
    request: pytest.FixtureRequest, lorewell: Service, monkeypatch: pytest.MonkeyPatch
) -> Service:
    """The program on a database, and on a service."""
    if request.param == "service":
        monkeypatch.setenv("LOREWELL_URL", request.getfixturevalue("url"))
    # The service outlives a test, so each test has a tenant of its own.
    name = request.node.originalname.replace("_", "-")[-100:]
    monkeypatch.setenv("LOREWELL_TENANT", name)
    return lorewell


def test_books_are_stored_and_listed(anywhere: Service) -> None:
    files = anywhere.file("harbour.json", HARBOUR), anywhere.file("world.json", WORLD)
    done = anywhere("book", "create", *files)
    assert done.code == 0
    assert r"1 3 Harbour \x1b[2J" in done.words
    assert "1 1 world" in done.words
    assert "\x1b" not in done.out
    listed = anywhere("book", "list", "--json").json
    assert listed["next_cursor"] is None
    assert {book["name"] for book in listed["books"]} == {"Harbour \x1b[2J", "world"}
    shown = anywhere("book", "list")
    assert r"Harbour \x1b[2J" in shown.out
    assert anywhere("book", "list", "--tenant", "nobody", "--json").json["books"] == []


def test_foreign_books_keep_where_they_came_from(anywhere: Service) -> None:
    shown = anywhere("book", "show", anywhere.create(WORLD), "--json").json
    assert shown["revision"]["entries"][0]["source"]["format"] == "st_world"


def test_a_book_is_shown(anywhere: Service) -> None:
    book_id = anywhere.create()
    done = anywhere("book", "show", book_id)
    assert f"{book_id}, revision 1 of 1, " in done.out
    assert r"Of\nlamps." in done.out
    assert "lamp lamp before_character 灯" in done.words
    assert "mole disabled before_character constant" in done.words
    assert "entry-2 required before_character blocked" in done.words
    world = anywhere.create(WORLD)
    assert "and 8 more" in anywhere("book", "show", world).words
    empty = anywhere("book", "show", anywhere.create({"name": "Empty"}))
    assert "Entries" not in empty.out


def test_ids_stay_whole_in_a_narrow_terminal(lorewell: Service) -> None:
    book_id = lorewell.create()
    lorewell.monkeypatch.setenv("COLUMNS", "60")
    assert book_id in lorewell("book", "list").out


def test_revisions_follow_each_other(anywhere: Service) -> None:
    book_id = anywhere.create()
    lit = {**HARBOUR["entries"][0], "content": "Lit."}
    new = {"id": "new", "content": "N"}
    changed = {**HARBOUR, "description": "", "entries": [new, lit]}
    file = anywhere.file("next.json", changed)
    done = anywhere("book", "publish", book_id, file, "--expected", "1")
    assert f"{book_id} is now at revision 2: 2 entries, hash " in done.out
    stale = anywhere("book", "publish", book_id, file, "--expected", "1")
    assert stale.code == 5
    assert stale.err == "lorewell: The book was changed: its head is revision 2.\n"
    renamed = anywhere.create({"name": "Other", "entries": []})
    assert (
        anywhere(
            "book",
            "publish",
            renamed,
            anywhere.file("empty.json", {"name": "New"}),
            "--expected",
            "1",
        ).code
        == 0
    )
    assert "book name" in anywhere("book", "diff", renamed, "1", "2").words
    diff = anywhere("book", "diff", book_id, "1", "2")
    for row in ("book description", "added new", "removed mole", "changed lamp content"):
        assert row in diff.words
    assert anywhere("book", "diff", book_id, "1", "2", "--json").json["added"] == ["new"]
    same = anywhere("book", "diff", book_id, "2", "2")
    assert same.out == "Revisions 2 and 2 are the same.\n"
    back = anywhere("book", "restore", book_id, "--revision", "1", "--expected", "2", "--json").json
    assert back["revision"] == 3
    assert "book description" not in anywhere("book", "diff", book_id, "1", "3").words
    anywhere(
        "book",
        "publish",
        book_id,
        anywhere.file("b.json", HARBOUR | {"entries": []}),
        "--expected",
        "3",
    )
    assert "book" not in anywhere("book", "diff", book_id, "3", "4").words
    history = anywhere("book", "history", book_id, "--json").json
    assert [each["revision"] for each in history["revisions"]] == [4, 3, 2, 1]
    assert "Revisions Revision Entries" in anywhere("book", "history", book_id).words
    assert (
        anywhere("book", "show", book_id, "--revision", "2", "--json").json["revision"][
            "entry_count"
        ]
        == 2
    )


def test_what_is_exported_is_the_same_book(anywhere: Service) -> None:
    book_id = anywhere.create()
    printed = anywhere("book", "export", book_id)
    assert set(json.loads(printed.out)) == set(BookCreate.model_fields)
    file = anywhere.folder / "out.json"
    assert anywhere("book", "export", book_id, "-o", file) == Done(0, "", "")
    assert file.read_text(encoding="utf-8") == printed.out
    published = anywhere("book", "publish", book_id, file, "--expected", "1", "--json").json
    first = anywhere("book", "history", book_id, "--json").json["revisions"][-1]
    assert published["content_hash"] == first["content_hash"]
    assert anywhere("book", "create", file).code == 0
    world = anywhere.folder / "world.json"
    assert anywhere("book", "export", book_id, "--to", "st_world", "-o", world).code == 0
    entries = json.loads(world.read_text(encoding="utf-8"))["entries"]
    assert [entry["uid"] for entry in entries.values()] == list(range(len(entries)))
    refused = anywhere("book", "export", book_id, "--to", "pdf")
    assert (refused.code, "must be one of native" in refused.err) == (2, True)


def test_a_deleted_book_comes_back(anywhere: Service) -> None:
    book_id = anywhere.create()
    assert anywhere("bind", "p", book_id).code == 0
    bound = anywhere("book", "delete", book_id)
    assert bound.code == 5
    assert "delete with force" in bound.err
    assert (
        "; undo with `lorewell book restore " in anywhere("book", "delete", book_id, "--force").out
    )
    assert anywhere("book", "show", book_id).code == 4
    assert "(deleted)" in anywhere("book", "list", "--deleted").out
    assert anywhere("book", "restore", book_id, "--json").json["deleted_at"] is None
    assert book_id in anywhere("book", "restore", book_id).out
    other = anywhere.create()
    assert anywhere("book", "delete", other, "--json") == Done(0, "", "")


def test_a_prompt_is_bound(anywhere: Service) -> None:
    first, second = anywhere.create(), anywhere.create(WORLD)
    done = anywhere("bind", "scene 1", first, f"{second}@1", "--policy", "sillytavern")
    assert "scene 1: policy sillytavern, books: 2" in done.out
    assert f"{first} latest global 0 enabled {second} 1 global 0 enabled" in done.words
    assert anywhere("bindings", "scene 1").out == done.out
    bound = anywhere("bindings", "scene 1", "--json").json
    assert [each["revision"] for each in bound["bindings"]] == [None, 1]
    assert anywhere("bind", "scene 1", "--json").json["bindings"] == []
    assert anywhere("bindings", "scene 1").out == "scene 1: policy auto, books: 0\n"
    assert anywhere("bind", "p", f"{first}@9").code == 4
    assert anywhere("bind", "p", UNKNOWN).code == 4
    for bad in (f"{first}@x", f"{first}@", f"{first}@0", f"{first}@99999999999999"):
        assert anywhere("bind", "p", bad).code == 2
    assert anywhere("bind", "p", first, first).code == 2
    assert anywhere("bind", "p", first, "--policy", "best").code == 2
    assert anywhere("bindings", "p" * 201).code == 2


def test_a_prompt_is_bound_with_settings_of_its_policy(anywhere: Service) -> None:
    native, tavern = anywhere.create(), anywhere.create(WORLD)
    options = ("--set", "scan_depth=4", "--set", "strategy=rules", "--set", "auto_index=true")
    done = anywhere("bind", "p", native, *options)
    assert 'native strategy = "rules" native scan_depth = 4 auto_index = true' in done.words
    bound = anywhere("bindings", "p", "--json").json
    assert bound["settings"] == {
        "native": {"strategy": "rules", "scan_depth": 4},
        "auto_index": True,
    }
    # The policy `auto` follows the books, and with it the names.
    values = ("--set", "world_info_depth=3", "--set", 'vectors={"messages": 3}')
    bound = anywhere("bind", "p", f"{tavern}@1=character", native, *values, "--json").json
    assert bound["settings"]["sillytavern"]["world_info_depth"] == 3
    assert bound["settings"]["sillytavern"]["vectors"]["messages"] == 3
    assert [each["source"] for each in bound["bindings"]] == ["character", "global"]
    for pair, words in (
        ("world_info_depth=3", "the policy native has no setting 'world_info_depth'; choose from"),
        ("scan_depth", "must have the form NAME=VALUE"),
        ("scan_depth=deep", "--set"),
        ("scan_depth=-1", "--set"),
    ):
        refused = anywhere("bind", "p", native, "--set", pair)
        assert refused.code == 2
        assert words in refused.err
    assert "scan_depth" in anywhere("bind", "p", native, "--set", "x=1").err
    nothing = anywhere("bind", "p", native, "--policy", "replica", "--set", "x=1")
    assert "choose from scene, auto_index" in nothing.err
    assert anywhere("bind", "p", f"{native}=world").code == 2
    assert anywhere("bindings", "p", "--json").json == bound
    assert anywhere("bind", "p", native, "--json").json["settings"] == {}


def test_prompts_are_listed(anywhere: Service) -> None:
    first, second = anywhere.create(), anywhere.create(WORLD)
    anywhere("bind", "雾 2", first, second)
    anywhere("bind", "p3", second, "--policy", "sillytavern")
    assert "sillytavern 1 p3" in anywhere("prompts").words
    assert "auto 2 雾 2" in anywhere("prompts").words
    listed = anywhere("book", "prompts", second, "--json").json
    assert [each["prompt_id"] for each in listed["prompts"]] == ["p3", "雾 2"]
    assert "p3" not in anywhere("book", "prompts", first).out
    assert anywhere("book", "prompts", UNKNOWN).code == 4
    anywhere("bind", "雾 2")
    anywhere("bind", "p3")


def test_keys_are_made_and_revoked(anywhere: Service) -> None:
    scopes = ("--scope", "read", "--scope", "write")
    done = anywhere("keys", "create", "--tenant", "a", "--tenant", "b", *scopes, "--name", "灯\x07")
    assert done.code == 0
    secret = done.out.strip()
    key_id = secret.split("_")[1]
    assert done.err == f"Key {key_id}. Store the secret now: it is not shown again.\n"
    listed = anywhere("keys", "list")
    assert rf"{key_id} a, b read, write " in listed.words
    assert r"灯\x07" in listed.out
    assert secret not in listed.out
    assert anywhere("keys", "revoke", key_id).out == f"Revoked {key_id}.\n"
    assert "(revoked " in anywhere("keys", "list").out
    made = anywhere("keys", "create", "--tenant", "*", "--scope", "admin", "--json").json
    assert made["secret"].startswith(f"lw_{made['id']}_")
    assert anywhere("keys", "revoke", made["id"], "--json") == Done(0, "", "")
    listed_json = anywhere("keys", "list", "--json").json["keys"]
    assert all("secret" not in key for key in listed_json)
    assert anywhere("keys", "revoke", "none").code == 4
    assert anywhere("keys", "create", "--tenant", "*", "--scope", "all").code == 2
    assert anywhere("keys", "create", "--tenant", "a b", "--scope", "read").code == 2


def test_what_can_not_be_used_has_a_code(anywhere: Service) -> None:
    book_id = anywhere.create()
    assert anywhere("book", "show", UNKNOWN).code == 4
    assert anywhere("book", "show", "no uuid").code == 4
    assert anywhere("book", "show", book_id, "--revision", "2").code == 4
    assert anywhere("book", "diff", book_id, "1", "9").code == 4
    assert anywhere("book", "list", "--tenant", "a b").code == 2
    assert anywhere("book", "restore", book_id, "--revision", "1").code == 2
    assert anywhere("book", "create", anywhere.folder / "none.json").code == 4
    assert anywhere("book", "create", anywhere.file("bad.json", {"name": 3})).code == 2
    card = anywhere("book", "create", anywhere.file("card.json", EMPTY_CARD))
    assert card.code == 2
    assert card.err == "lorewell: card.json is a card that holds no lorebook.\n"
    circle = {"name": "C", "entries": [{"id": "a", "content": "A", "requires": ["a"]}]}
    assert anywhere("book", "create", anywhere.file("circle.json", circle)).code == 2
    many = [anywhere.file("book.json", HARBOUR)] * 11
    assert anywhere("book", "create", *many).code == 2
    output = anywhere("book", "export", book_id, "-o", anywhere.folder)
    assert output.code == 1
    assert "can't be written" in output.err
    assert anywhere("book", "publish", book_id).code == 2


def test_all_pages_are_listed(lorewell: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lorewell.cli.local._PAGE", 1)
    books = {lorewell.create() for _ in range(3)}
    listed = lorewell("book", "list", "--json").json["books"]
    assert {book["book_id"] for book in listed} == books
    book_id = books.pop()
    file = lorewell.folder / "book.json"
    lorewell("book", "publish", book_id, file, "--expected", "1")
    history = lorewell("book", "history", book_id, "--json").json["revisions"]
    assert [each["revision"] for each in history] == [2, 1]


def test_the_place_may_be_named_by_options(
    lorewell: Service, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    other = f"sqlite:///{lorewell.folder / 'other.db'}"
    file = lorewell.file("book.json", HARBOUR)
    assert lorewell("book", "create", file, "--database", other).code == 0
    assert lorewell("book", "list", "--json").json["books"] == []
    assert len(lorewell("book", "list", "--database", other, "--json").json["books"]) == 1
    served = ("--url", url, "--tenant", "by-option", "--api-key", "lw_a_b")
    assert lorewell("book", "list", *served, "--json").json["books"] == []
    monkeypatch.setenv("LOREWELL_URL", url)
    monkeypatch.setenv("LOREWELL_API_KEY", "lw_a_b")
    assert len(lorewell("book", "list", "--database", other, "--json").json["books"]) == 1
    assert lorewell("book", "list", "--tenant", "by-option", "--json").json["books"] == []
    both = lorewell("book", "list", "--database", other, "--url", url)
    assert both.code == 2
    assert both.err == "lorewell: --url and --database exclude each other; give one of them.\n"


def test_a_service_that_is_not_there_has_a_code(lorewell: Service) -> None:
    done = lorewell("book", "list", "--url", f"http://127.0.0.1:{free_port()}")
    assert done.code == 7
    assert "can't be reached" in done.err
    assert lorewell("book", "list", "--url", "nowhere").code == 2


def test_a_guarded_service_wants_a_key(lorewell: Service, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'guarded.db'}"
    made = lorewell(
        "keys", "create", "--tenant", "default", "--scope", "read", "--database", database
    )
    with running(tmp_path / "log", database_url=database, auth="true") as served:
        at = ("--url", served.url)
        assert lorewell("book", "list", *at).code == 3
        assert lorewell("book", "list", *at, "--api-key", "lw_a_b").code == 3
        lorewell.monkeypatch.setenv("LOREWELL_API_KEY", made.out.strip())
        assert lorewell("book", "list", *at).code == 0
        assert lorewell("book", "list", *at, "--tenant", "other").code == 3
        assert lorewell("keys", "list", *at).code == 3


def test_a_database_that_can_not_be_used_has_a_code(lorewell: Service) -> None:
    assert lorewell("book", "list", "--database", "mysql://a:geheim@b/c").code == 2
    broken = lorewell.folder / "broken.db"
    broken.write_bytes(b"no database at all" * 100)
    for command in (("book", "list"), ("migrate",), ("backup", lorewell.folder / "copy.db")):
        done = lorewell(*command, "--database", f"sqlite:///{broken}")
        assert done.code == 7, done.err
    assert sorted(path.name for path in lorewell.folder.iterdir()) == ["broken.db"]


def test_migrate_makes_the_schema(lorewell: Service) -> None:
    for _ in range(2):
        assert lorewell("migrate") == Done(0, "The database is up to date.\n", "")
    with closing(sqlite3.connect(lorewell.folder / "lorewell.db")) as made:
        names = {name for (name,) in made.execute("SELECT name FROM sqlite_master")}
    assert "books" in names


def test_a_backup_is_a_database_of_its_own(lorewell: Service) -> None:
    book_id = lorewell.create()
    target = lorewell.folder / "a copy#1?.db"
    with closing(sqlite3.connect(lorewell.folder / "lorewell.db")) as user:
        user.execute("BEGIN")  # somebody reads meanwhile
        user.execute("SELECT * FROM books").fetchall()
        done = lorewell("backup", target)
    assert done.out == f"Wrote {target}: {target.stat().st_size} bytes, checked.\n"
    listed = lorewell("book", "list", "--json").json["books"]
    (lorewell.folder / "lorewell.db").unlink()
    target.rename(lorewell.folder / "lorewell.db")
    assert lorewell("book", "list", "--json").json["books"] == listed
    assert listed[0]["book_id"] == book_id


def test_a_backup_replaces_nothing(lorewell: Service) -> None:
    target = lorewell.file("there.db", "mine")
    assert lorewell("backup", target).code == 4  # nothing is there to be copied
    lorewell("migrate")
    assert lorewell("backup", target).code == 5
    assert target.read_text(encoding="utf-8") == '"mine"'
    away = lorewell("backup", lorewell.folder / "none" / "a.db")
    assert away.code == 7
    assert "Can't write the backup" in away.err


def test_a_damaged_copy_is_thrown_away(lorewell: Service) -> None:
    for _ in range(20):
        lorewell.create({**HARBOUR, "description": os.urandom(2000).hex()})
    path = lorewell.folder / "lorewell.db"
    with closing(sqlite3.connect(path)) as database:
        size = database.execute("PRAGMA page_size").fetchone()[0]
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute("PRAGMA journal_mode = DELETE")
    content = bytearray(path.read_bytes())
    content[size * (pages // 2) :] = b"\xff" * (len(content) - size * (pages // 2))
    path.write_bytes(content)
    done = lorewell("backup", lorewell.folder / "copy.db")
    assert done.code == 7
    assert not list(lorewell.folder.glob("copy*"))


def test_a_copy_that_breaks_its_own_rules_is_thrown_away(lorewell: Service) -> None:
    lorewell("migrate")
    with closing(sqlite3.connect(lorewell.folder / "lorewell.db")) as database:
        database.executescript(
            "CREATE TABLE odd (a); INSERT INTO odd VALUES (NULL); PRAGMA writable_schema = ON;"
            "UPDATE sqlite_master SET sql = 'CREATE TABLE odd (a NOT NULL)' WHERE name = 'odd';"
        )
    done = lorewell("backup", lorewell.folder / "copy.db")
    assert done.code == 7
    assert done.err == "lorewell: The copy is damaged and was deleted.\n"
    assert not list(lorewell.folder.glob("copy*"))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://ann:geheim@db/lore", "postgresql://ann@db/lore"),
        ("postgresql+asyncpg://db/lore", "postgresql://db/lore"),
        ("postgresql://ann:g@eheim@[::1]:5432", "'postgresql://ann@[::1]:5432'"),
        ("postgresql:///lore?host=/run&user=a@b", "'postgresql:///lore?host=%2Frun&user=a%40b'"),
        *(
            (f"postgresql://ann:ge{mark}heim@db/lore", "postgresql://USER@HOST/DATABASE")
            for mark in "/?#"
        ),
        (
            "postgres://ann:geheim@db/lore?password=geheim&sslmode=require",
            "'postgresql://ann@db/lore?sslmode=require'",
        ),
    ],
)
def test_postgres_is_left_to_its_own_tool(lorewell: Service, given: str, shown: str) -> None:
    done = lorewell("backup", "lore dump", "--database", given)
    assert done.code == 2
    assert done.out == f"pg_dump --format=custom --file='lore dump' {shown}\n"
    assert "geheim" not in done.out + done.err
    assert pg_dump_command(given, Path("lore dump")) == done.out.strip()


def test_commands_on_files_load_no_service() -> None:
    code = "import sys, lorewell.cli.main; print(*sys.modules)"
    heavy = {"fastapi", "httpx", "pydantic_settings", "sqlalchemy", "uvicorn"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert heavy.isdisjoint(done.stdout.split())


def test_serve_answers_until_it_is_told_to_stop(tmp_path: Path) -> None:
    port, database = free_port(), f"sqlite:///{tmp_path / 'served.db'}"
    code = "from lorewell.cli.main import main; main()"
    options = ["serve", "--port", str(port), "--database", database]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *options], env=environment(), stdout=log, stderr=log
        )
    patient = Retry(attempts=600, first_pause_s=0.05, longest_pause_s=0.1)
    with LorewellClient(f"http://127.0.0.1:{port}", tenant_id="demo", retry=patient) as client:
        assert client.list_books().books == ()
    process.terminate()
    assert process.wait(timeout=60) in (0, -signal.SIGTERM)  # as the server passes it on
    assert "shutdown complete" in (tmp_path / "log").read_text(encoding="utf-8")


def test_every_setting_is_listed(lorewell: Service) -> None:
    listed = lorewell("settings", "--json").json
    assert [each["name"] for each in listed] == list(Settings.model_fields)
    assert set(listed[0]) == {"name", "env", "default", "unit", "help"}
    shown = lorewell("settings")
    assert all(each.env in shown.out for each in list_settings())


def test_serve_takes_its_options_over_the_settings(
    lorewell: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Settings] = []
    reloads: list[bool] = []

    def serve(settings: Settings, *, reload: bool) -> None:
        given.append(settings)
        reloads.append(reload)

    monkeypatch.setattr(server, "serve", serve)
    monkeypatch.setenv("LOREWELL_PORT", "9000")
    monkeypatch.setenv("LOREWELL_AUTH", "true")
    assert lorewell("serve", "--host", "::1", "--workers", "2").code == 0
    assert lorewell("serve", "--no-auth", "--port", "0", "--database", "sqlite:///x.db").code == 0
    assert lorewell("serve", "--auth", "--allow-unauthenticated", "--reload").code == 0
    assert reloads == [False, False, True]
    assert [(each.host, each.port, each.workers, each.auth) for each in given] == [
        ("::1", 9000, 2, True),
        ("127.0.0.1", 0, 1, False),
        ("127.0.0.1", 9000, 1, True),
    ]
    assert given[1].database_url == "sqlite:///x.db"
    assert [each.allow_unauthenticated for each in given] == [False, False, True]


def test_gateway_serves_and_says_how_to_use_it(
    lorewell: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Settings] = []
    monkeypatch.setattr(server, "serve", given.append)
    done = lorewell("gateway")
    assert done.code == 2
    assert "LOREWELL_GATEWAY_UPSTREAM_URL" in done.err
    monkeypatch.setenv("LOREWELL_GATEWAY_UPSTREAM_URL", "http://user:hunter2@model.example/v1")
    done = lorewell("gateway", "--host", "::1", "--port", "9000", "--model", "雾", "--key", "sk-1")
    assert "http://[::1]:9000/gateway/v1" in done.out
    assert "http://model.example/v1, as the model 雾." in done.out
    assert "X-Lorewell-Prompt" in done.out
    assert "--tenant default" in done.out
    assert "hunter2" not in done.out
    assert "sk-1" not in done.out
    lorewell("gateway", "--url", "http://m/v1", "--tenant", "t", "--window", "9", "--budget", "8")
    assert [each.gateway_upstream_api_key for each in given] == ["sk-1", ""]
    assert "sk-1" not in repr(given)
    assert (given[1].gateway_tenant, given[1].gateway_context_window) == ("t", 9)
    assert given[1].gateway_token_budget == 8


def test_serve_refuses_an_open_door(lorewell: Service) -> None:
    done = lorewell("serve", "--host", "0.0.0.0")  # noqa: S104  it is refused
    assert done.code == 2
    assert "LOREWELL_AUTH" in done.err
    assert lorewell("serve", "--port", "70000").code == 2


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.ValidationFailedError, 2),
        (errors.UnauthenticatedError, 3),
        (errors.ForbiddenError, 3),
        (errors.BookNotFoundError, 4),
        (errors.IdempotencyConflictError, 5),
        (errors.BatchTooLargeError, 6),
        (errors.StorageUnavailableError, 7),
        (errors.MethodNotAllowedError, 1),
        (LorewellError, 1),
    ],
)
def test_exit_codes_are_those_of_the_classes(kind: type[LorewellError], code: int) -> None:
    assert exit_code(kind("Odd.")) == code
