"""Every command on hostile books, files and services: nothing of them reaches the terminal."""

from __future__ import annotations

import ast
import io
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
import typer
from pydantic import TypeAdapter

import lorewell.cli
from chat_upstream import ChatUpstream, chat_upstream_fixture  # noqa: F401  a fixture
from hostile import HOSTILE, MILD, Terminal, check_shown, hostile, send
from lorewell.cli.main import app
from lorewell.client import LorewellClient
from lorewell.client.calls import ClientCall
from lorewell.client.problems import rebuild
from lorewell.http import server
from lorewell.http.problems import Problem
from lorewell.model import BookCreate
from lorewell.model.live import LiveFrame, LiveMissed, LiveReady, LiveSelection
from lorewell.upstreams.replies import ChatDelta
from pictures import png, text
from program import Done, Lorewell
from replica_books import conditional, constant, keyed
from world_info import expand

NOWHERE = "http://127.0.0.1:9"
NAME = HOSTILE.replace("/", "")  # a file may have it
ENTRY = hostile(BookCreate, constant=False, required=False)["entries"][0]
ANY = frozenset(range(8))
OK = frozenset([0])
FOUND = frozenset([1])  # by lint


def entry(number: int, **members: Any) -> dict[str, Any]:
    usual = {"key_expression": None, "audience": ["actor"], "probability": 100}
    return {**ENTRY, "id": f"{MILD}{number}", **usual, **members}


FREE = {"conditions": [], "conditions_text": [], "runtime_requirements": []}
BOOK = {
    **hostile(BookCreate),
    "entries": [
        entry(0, **FREE, constant=True, conflict_key=None),
        entry(1, **FREE, constant=True),
        entry(2, **FREE, constant=True, conflict_key=ENTRY["conflict_key"]),
        entry(3, **FREE, enabled=False),
        entry(4, **FREE, keys=["nothing"]),
        entry(5, **FREE, secondary_keys=["nothing"], conflict_key=None),
        entry(6, **FREE, requires=[f"{MILD}3"]),
        entry(7, **{**FREE, "runtime_requirements": ENTRY["runtime_requirements"]}),
        entry(8, **{**FREE, "conditions": ENTRY["conditions"]}),
        entry(9, **FREE, probability=0),
        entry(10, **FREE, keys=[f"/{HOSTILE[4:]}(/"], selective=False),
        entry(11, **FREE, content=f"{HOSTILE} {{{{char}}}}", conflict_key=None, constant=True),
        entry(12, **FREE, position="at_depth", outlet_name=None, constant=True, conflict_key=None),
    ],
}
FIELDS = {"comment": HOSTILE, "content": HOSTILE, "key": [HOSTILE], "keysecondary": [HOSTILE]}
WORLD = {
    "name": HOSTILE,
    HOSTILE: HOSTILE,
    "entries": {
        str(uid): expand({"uid": uid, **FIELDS, HOSTILE: HOSTILE, **members})
        for uid, members in enumerate(
            [
                {"constant": True, "group": HOSTILE, "sticky": 2, "cooldown": 3},
                {"position": 7, "outletName": HOSTILE, "constant": True},
                {"position": 4, "depth": 2, "group": HOSTILE, "groupOverride": True},
                {"selective": False, "automationId": HOSTILE, "vectorized": True},
                {"key": ["nothing"]},
                {"key": [f"/{HOSTILE[4:]}(/"], "selective": False},
                {"constant": True, "content": f"@@activate\n@@{HOSTILE}\n<% {HOSTILE} %>"},
                {"constant": True, "delay": 9},
                {"characterFilter": {"isExclude": False, "names": [HOSTILE], "tags": [HOSTILE]}},
            ]
        )
    },
}
REPLICA = {
    "name": HOSTILE,
    "entries": [
        constant(HOSTILE, content=HOSTILE, comment=HOSTILE),
        keyed(f"1{HOSTILE}", HOSTILE, group=HOSTILE, position=4, order=5),
        keyed(f"2{HOSTILE}", HOSTILE, group=HOSTILE, comment=HOSTILE),
        keyed(f"3{HOSTILE}", "nothing"),
        keyed(f"4{HOSTILE}", HOSTILE, requires=[HOSTILE, f"no {HOSTILE}"]),
        conditional(f"5{HOSTILE}", f"tb.{HOSTILE} > 1", comment=HOSTILE),
    ],
}
CARD = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {
        **dict.fromkeys(("name", "description", "personality", "scenario", "first_mes"), HOSTILE),
        "character_book": {
            "name": HOSTILE,
            "entries": [
                {
                    "keys": [HOSTILE],
                    "content": HOSTILE,
                    "comment": HOSTILE,
                    "enabled": True,
                    "insertion_order": 1,
                    "extensions": {HOSTILE: HOSTILE},
                    HOSTILE: HOSTILE,
                }
            ],
        },
    },
}
CHAT = [
    {"user_name": HOSTILE, "character_name": HOSTILE, "chat_metadata": {"world_info": HOSTILE}},
    {"name": HOSTILE, "is_user": True, "mes": HOSTILE},
    {"name": HOSTILE, "is_user": False, "mes": HOSTILE, HOSTILE: HOSTILE},
]
# Keys that are almost in what is said, each in a way of its own.
NEARLY = f"{MILD} Lantern lampshade"
NEARLY_TURN = {"query": NEARLY, "history": [{"role": "user", "content": f"{MILD} oar"}]}
BY_KEYS = {
    **FREE,
    "conflict_key": None,
    "position": "at_depth",
    "outlet_name": None,
}
NEAR = {
    **hostile(BookCreate),
    "entries": [
        entry(0, **BY_KEYS, keys=[f"{MILD} lantern"], selective=False),
        entry(1, **BY_KEYS, keys=["lampshade"], secondary_keys=[f"{MILD} oar"]),
        entry(2, **BY_KEYS, keys=["Lanterm"], selective=False),
        entry(3, **BY_KEYS, keys=["lampshade"], content=f"{MILD} oar", selective=False),
        entry(4, **BY_KEYS, keys=[f"{MILD} oar"], selective=False),
        entry(5, **BY_KEYS, keys=[f"{MILD} Lantern lamp"], selective=False),
    ],
}
SAID = [
    {"role": "user", "content": MILD, "name": HOSTILE},
    {"role": "assistant", "content": NEARLY, HOSTILE: HOSTILE},
    {HOSTILE: HOSTILE},
    {"role": "user", "content": f"{HOSTILE} lantern {MILD} oar"},
]
SILLYTAVERN = ("--policy", "sillytavern")
IN_REPLICA = ("--policy", "replica")
REPLICA_IDS = [HOSTILE, *(f"{number}{HOSTILE}" for number in range(1, 6))]
TURN = {"query": HOSTILE, "history": [{"role": "user", "content": HOSTILE}], "seed": HOSTILE}
# What each command is run with beside the options of its own; @x is made from what is below.
SCENES: Mapping[str, Sequence[tuple[Sequence[str], frozenset[int]]]] = {
    "serve": [(["--sample", "@book"], OK), (["--host", HOSTILE], ANY)],
    "gateway": [(["--url", f"{NOWHERE}/{MILD}", "--model", HOSTILE], ANY)],
    "migrate": [([], OK)],
    "backup": [(["@new"], OK), (["@folder"], ANY)],
    "settings": [([], OK)],
    "chat": [
        (["--book", "@book", "--user", HOSTILE, "--system", HOSTILE], OK),
        (["--book", "@world"], OK),
        (["--book", "@replica", "--policy", "replica"], OK),
        (["--book", "@book", "--upstream", NOWHERE, "--model", HOSTILE], ANY),
    ],
    "import": [([each], OK) for each in ("@book", "@card", "@world", "@replica")]
    + [(["@folder"], ANY), (["@broken"], ANY), (["@none"], ANY)],
    "inspect": [([each], OK) for each in ("@book", "@card", "@world", "@replica")]
    + [(["@folder"], ANY), (["@broken"], ANY), (["@none"], ANY)],
    "convert": [
        (["@world", "@new", "--to", "replica"], OK),
        (["@card", "@new", "--to", "native"], OK),
        (["@folder", "@new", "--to", "st_world"], ANY),
        (["@book", "@folder", "--to", "native"], ANY),
        (["@book", "@new", "--to", HOSTILE], ANY),
    ],
    "try": [
        ([f"tb.a > 1 {HOSTILE}", "--rules", "replica"], ANY),
        ([f'tb.a == "{MILD}"', "--rules", "replica", "--table", json.dumps({"a": HOSTILE})], ANY),
        ([f"lamp & {MILD}", "--rules", "keys", "--message", HOSTILE], ANY),
        (["lamp", "--table", f"{{{HOSTILE}"], ANY),
    ],
    "bind": [([MILD, "@id"], OK), ([HOSTILE, HOSTILE, f"{HOSTILE}@{HOSTILE}"], ANY)],
    "bindings": [([HOSTILE], ANY), ([MILD], OK)],
    "prompts": [([], OK)],
    "book prompts": [(["@id"], OK), ([HOSTILE], ANY)],
    "index": [(["--list"], OK), (["@id"], ANY), (["--all"], ANY), ([HOSTILE], ANY)],
    "search": [([HOSTILE], OK), ([HOSTILE, "--book", HOSTILE], ANY)],
    "live": [(["--prompt", HOSTILE], OK)],
    "explain": [
        (["@book", f"{MILD}0", "--query", HOSTILE], OK),
        *((["@book", f"{MILD}{number}", "--chat", "@chat"], OK) for number in range(1, 13)),
        *((["@near", f"{MILD}{number}", "--request", "@nearly"], OK) for number in range(6)),
        (["@book", f"{MILD}8", "--request", "@turn", "--state", "@state"], OK),
        *((["@world", str(uid), *SILLYTAVERN, "--chat", "@chat"], OK) for uid in range(9)),
        *((["@replica", each, *IN_REPLICA, "--query", HOSTILE], OK) for each in REPLICA_IDS),
        (["@book", HOSTILE, "--query", HOSTILE], ANY),
        (["@broken", HOSTILE, "--query", HOSTILE], ANY),
        (["@book", f"{MILD}0", "--chat", "@broken"], ANY),
        (["@book", f"{MILD}0", "--request", "@broken"], ANY),
    ],
    "lint": [
        (["@book", "@near"], FOUND),
        (["@world", "@replica", "@card"], FOUND),
        (["@book", "--request", "@turn", "--state", "@state"], FOUND),
        (["@book", "@world", "--format", "json"], FOUND),
        (["@book", "@world", "--format", "sarif"], FOUND),
        (["@copy", "--fix"], FOUND),
        (["@folder"], ANY),
        (["@broken"], ANY),
        (["@none"], ANY),
    ],
    "replay": [
        (["--book", "@book", "--chat", "@chat", "--seed", HOSTILE], OK),
        (["--book", "@near", "--chat", "@said", "--every-message", "--user", HOSTILE], OK),
        (["--book", "@world", "--chat", "@chat", "--char", HOSTILE], OK),
        (["--book", "@replica", "--chat", "@chat", "--every-message"], OK),
        (["--book", "@book", "--chat", "@broken"], ANY),
        (["--book", "@broken", "--chat", "@chat"], ANY),
        (["--book", "@book", "--chat", "@chat", "--settings", "@turn"], ANY),
    ],
    "diff": [
        (["@book", "@near"], OK),
        (["@world", "@replica"], OK),
        (["@book", "@near", "--chat", "@chat"], OK),
        (["@near", "@book", "--chat", "@said", "--every-message"], OK),
        (["@world", "@world", "--chat", "@chat", "--budget-b", "1"], OK),
        (["@replica", "@book", "--chat", "@chat", "--policy-b", "native"], OK),
        (["@book", "@broken"], ANY),
        (["@none", "@book", "--chat", "@chat"], ANY),
    ],
    "plan": [
        (["--book", "@book", "--chat", "@chat"], OK),
        (["--book", "@near", "--book", "@book", "--chat", "@said", "--budget", "40"], OK),
        (["--book", "@world", "--chat", "@chat", "--every-message"], OK),
        (["--book", "@replica", "--chat", "@chat"], ANY),
        (["--book", "@book", "--chat", "@none"], ANY),
    ],
    "select": [
        (["--book", "@book", "--request", "@turn", "--user", HOSTILE], OK),
        (["--book", "@book", "--book", "@world", "--query", HOSTILE, "--budget", "300"], OK),
        (["--book", "@card", "--query", HOSTILE, "--tokenizer", HOSTILE], ANY),
        (["--book", "@broken", "--query", HOSTILE], ANY),
    ],
    "show": [(["@book"], OK), (["@world"], OK), (["@card"], OK), (["@replica"], OK)],
    "book create": [(["@book", "@world"], OK), (["@broken"], ANY)],
    "book list": [([], OK)],
    "book show": [(["@id"], OK), ([HOSTILE], ANY)],
    "book publish": [(["@id", "@world", "--expected", "2"], OK), (["@id", "@book"], ANY)],
    "book history": [(["@id"], OK)],
    "book diff": [(["@id", "1", "2"], OK)],
    "book export": [(["@id"], OK), (["@id", "-o", "@new"], OK), (["@id", "-o", "@folder"], ANY)],
    "book delete": [(["@id"], OK), ([HOSTILE], ANY)],
    "book restore": [(["@id"], OK)],
    "keys create": [(["--tenant", "*", "--scope", "read", "--name", MILD], OK)],
    "keys list": [([], OK)],
    "keys revoke": [([HOSTILE], ANY)],
    "sillytavern run": [
        (["--chat", "@chat", "--book", "@world", "--card", "@card", "--persona", HOSTILE], OK),
        (["--chat", "@chat", "--book", "@world", "--watch-turns", "--user", HOSTILE], OK),
        (["--chat", "@broken", "--book", "@world"], ANY),
    ],
    "replica activate": [
        (["@replica", "@world", "--mes", HOSTILE, "--table", json.dumps({HOSTILE: HOSTILE})], OK),
        (["@replica", "--request", "@turn"], ANY),
    ],
}
# They print nothing of what they work on, or its number alone.
SILENT = frozenset(
    {
        *("backup", "book create", "book delete", "book export", "book publish", "convert"),
        *("keys create", "keys list", "migrate", "serve", "settings"),
    }
)


def walk(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command with its name."""
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, f"{path} {name}".lstrip())
    if not hasattr(command, "commands"):
        yield path, command


COMMANDS = dict(walk(typer.main.get_command(app)))
NAMES = sorted(COMMANDS)


def having(option: str) -> list[str]:
    """Return the commands with an option."""
    return [name for name in NAMES if any(option in each.opts for each in COMMANDS[name].params)]


WITH_JSON = having("--json")
WITH_PLACE = [name for name in having("--api-key") if name != "chat"]


def test_every_command_has_its_scenes() -> None:
    assert sorted(SCENES) == NAMES


@pytest.fixture(name="material", scope="module")
def make_material(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Files and a database whose texts, and names, are hostile."""
    folder = tmp_path_factory.mktemp("hostile") / NAME
    folder.mkdir()
    documents: dict[str, object] = {"book": BOOK, "world": WORLD, "replica": REPLICA, "turn": TURN}
    documents |= {"near": NEAR, "nearly": NEARLY_TURN, "said": SAID, "state": {HOSTILE: HOSTILE}}
    files = {name: json.dumps(each).encode() for name, each in documents.items()}
    files["chat"] = "\n".join(map(json.dumps, CHAT)).encode()
    files["card"] = png(text(CARD))
    files["broken"] = f'{{"{MILD}": {HOSTILE}'.encode()
    ends = {"chat": "jsonl", "card": "png"}
    paths = {name: folder / f"{name}{NAME}.{ends.get(name, 'json')}" for name in files}
    for name, content in files.items():
        paths[name].write_bytes(content)
    found = {name: str(path) for name, path in paths.items()}
    return {**found, "folder": str(folder), "none": str(folder / f"none{NAME}")}


class Bench:
    """Runs a command with its arguments filled in, in a folder of its own."""

    def __init__(self, program: Lorewell, material: Mapping[str, str], command: str) -> None:
        self.program, self.material, self.command = program, material, command
        self.made = 0

    def __call__(self, args: Sequence[str], codes: frozenset[int] = ANY) -> Done:
        self.made += 1
        new = self.program.folder / f"new{self.made}{NAME}"
        copy = self.program.folder / f"copy{self.made}{NAME}.json"
        shutil.copy(self.material["book"], copy)
        known = {**self.material, "new": str(new), "copy": str(copy)}
        line = [known[each[1:]] if each.startswith("@") else each for each in args]
        said = io.StringIO(f"{HOSTILE}\n/why\n/quit\n")
        self.program.monkeypatch.setattr(sys, "stdin", said)
        done = self.program(*self.command.split(), *line)
        documents = self.command == "book export" or "--format" in args
        if documents and not isinstance(self.program, Terminal):
            json.loads(done.out or "{}")  # for a program, which is to get the text as it is
        else:
            check_shown(done.out + done.err)
        assert done.code in codes, (args, done)
        return done


@pytest.fixture(name="stored", scope="module")
def make_stored(
    material: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """Return a database with a book of two revisions, and the book's id."""
    folder = tmp_path_factory.mktemp("stored")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOREWELL_DATABASE_URL", f"sqlite:///{folder / 'l.db'}")
        from lorewell.cli.local import open_local  # noqa: PLC0415  it reads the settings

        with open_local(None, "default") as library:
            made = library.import_books([TypeAdapter(BookCreate).validate_python(BOOK)])
            book_id = made.books[0].book_id
            changed = {**BOOK, "name": f"2{HOSTILE}", "entries": BOOK["entries"][1:6]}
            library.publish_revision(
                book_id, TypeAdapter(BookCreate).validate_python(changed), expected_revision=1
            )
    assert material
    return folder / "l.db", book_id


def live(*_: Any, **__: Any) -> Iterator[LiveFrame]:
    """Yield a frame of each kind; stands in for `LorewellClient.live`."""
    for kind in (LiveReady, LiveSelection, LiveMissed):
        yield TypeAdapter(kind).validate_python(hostile(kind))


def refuse(_client: LorewellClient, _call: ClientCall[Any]) -> NoReturn:
    """Answer every call with a problem; stands in for `LorewellClient.send`."""
    problem = {**hostile(Problem), "status": 422}
    raise rebuild(httpx.Response(422, json=problem, headers={"X-Request-ID": "[/]"}))


@pytest.fixture(name="bench", params=["terminal", "pipe"])
def make_bench(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    material: Mapping[str, str],
    stored: tuple[Path, str],
) -> Bench:
    for name in [each for each in os.environ if each.startswith("LOREWELL_")]:
        monkeypatch.delenv(name)
    database, book_id = stored
    shutil.copy(database, tmp_path / "l.db")
    monkeypatch.setenv("LOREWELL_DATABASE_URL", f"sqlite:///{tmp_path / 'l.db'}")
    monkeypatch.setattr(server, "serve", lambda *_, **__: None)
    monkeypatch.setattr(LorewellClient, "live", live)
    kind = Terminal if request.param == "terminal" else Lorewell
    program = kind(tmp_path, monkeypatch, capfd, columns=140)
    return Bench(program, {**material, "id": book_id}, request.getfixturevalue("command"))


@pytest.mark.parametrize("command", NAMES)
def test_command_shows_hostile_text_as_text(bench: Bench, command: str) -> None:
    for args, codes in SCENES[command]:
        if command == "book restore":
            bench.program("book", "delete", bench.material["id"])
        if command.endswith("prompts"):
            bench.program("bind", MILD, bench.material["id"])
        done = bench(args, codes)
        assert codes is ANY or command in SILENT or "[/]" in done.out


@pytest.mark.parametrize("bench", ["terminal"], indirect=True)
@pytest.mark.parametrize("command", WITH_JSON)
def test_command_shows_hostile_json_with_escapes(bench: Bench, command: str) -> None:
    for args, codes in SCENES[command]:
        if command == "book restore":
            bench.program("book", "delete", bench.material["id"])
        done = bench([*args, "--json"], codes)
        for line in done.out.splitlines():
            if line.startswith("{") and done.code == 0 and command != "book export":
                json.loads(line)


@pytest.mark.parametrize("bench", ["terminal"], indirect=True)
@pytest.mark.parametrize("command", WITH_PLACE)
def test_command_shows_what_a_hostile_service_answers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(LorewellClient, "send", send)
    for args, _ in SCENES[command]:
        for more in ([], ["--json"]):
            bench([*args, "--url", NOWHERE, *more])
    monkeypatch.setattr(LorewellClient, "send", refuse)
    for args, _ in SCENES[command]:
        bench([*args, "--url", NOWHERE])


@pytest.mark.parametrize("bench", ["terminal"], indirect=True)
@pytest.mark.parametrize("command", NAMES)
def test_command_shows_hostile_options_as_text(bench: Bench, command: str) -> None:
    for each in COMMANDS[command].params:
        if each.opts[0].startswith("--") and each.type.name != "boolean":
            for args, _ in SCENES[command][:1]:
                bench([*args, each.opts[0], HOSTILE])
    bench([f"--{HOSTILE}"])
    bench([HOSTILE] * 9)


@pytest.mark.parametrize("bench", ["terminal"], indirect=True)
@pytest.mark.parametrize("command", ["show"])
def test_names_of_commands_are_shown_as_text(bench: Bench, command: str) -> None:
    assert command
    for line in ([HOSTILE], ["book", HOSTILE], ["--version", HOSTILE], [f"-{HOSTILE}"]):
        check_shown(bench.program(*line).out)


def test_outlet_that_looks_like_markup_ends_nothing(lorewell: Lorewell) -> None:
    lorewell.monkeypatch.setenv("LOREWELL_DATABASE_URL", f"sqlite:///{lorewell.folder / 'l.db'}")
    place = {"position": "outlet", "outlet_name": "[/]", "content": "x", "id": "a"}
    made = lorewell("book", "create", lorewell.book(place), "--json").json["books"][0]
    done = lorewell("book", "show", made["book_id"])
    assert (done.code, done.err) == (0, "")
    assert "[/]" in done.out


@pytest.mark.parametrize("toml", [f"{json.dumps(MILD)} = 1", f"port = {json.dumps(MILD)}", MILD])
def test_settings_are_refused_in_plain_text(lorewell: Lorewell, toml: str) -> None:
    config = lorewell.file(f"{NAME}.toml", toml.encode())
    for name, value in (("CONFIG", str(config)), ("CONFIG", str(config) * 2), ("PORT", HOSTILE)):
        with lorewell.monkeypatch.context() as patch:
            patch.setenv(f"LOREWELL_{name}", value)
            assert server.main() == 2
            printed = lorewell.capfd.readouterr().err
            assert printed.count("\n") == 1
            check_shown(printed + lorewell("serve").err)


def test_reply_of_a_model_is_shown_as_text(lorewell: Lorewell, chat_upstream: ChatUpstream) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    chat_upstream.reply(f"{HOSTILE} {family} \u0645\u06cc\u200c\u062e 1\ufe0f\u20e3")
    lorewell.monkeypatch.setattr(sys, "stdin", io.StringIO("hello\n"))
    at = ("--upstream", chat_upstream.url, "--model", "m")
    done = lorewell("chat", "--book", lorewell.book({"content": "x"}), *at)
    check_shown(done.out)
    assert "[/] [red]r[/red]" in done.out
    assert family in done.out
    assert r"\x1b[2J\x1b[5;38;5;123m" in done.out


def test_piece_of_a_reply_may_end_anywhere(lorewell: Lorewell) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"

    async def stream(*_: Any) -> AsyncIterator[ChatDelta]:
        for piece in f"{family}{HOSTILE}{family}":
            yield ChatDelta(content=piece)

    lorewell.monkeypatch.setattr("lorewell.upstreams.ScriptedModel.stream", stream)
    lorewell.monkeypatch.setattr(sys, "stdin", io.StringIO("hello\n"))
    done = lorewell("chat", "--book", lorewell.book({"content": "x"}))
    check_shown(done.out)
    assert done.out.count(family) == 2


def test_fault_of_the_program_shows_no_values(lorewell: Lorewell) -> None:
    def fail(*_: Any, **__: Any) -> None:
        secret = "xyzzy" + "-hunter2"
        raise RuntimeError(HOSTILE, len(secret))

    lorewell.monkeypatch.setattr("lorewell.cli.main.load_contents", fail)
    done = lorewell("show", "book.json")
    assert (done.code, done.out) == (1, "")
    assert "RuntimeError" in done.err
    assert "hunter2" not in done.err.replace('"xyzzy" + "-hunter2"', "")
    check_shown(done.err.replace("Traceback", ""))


def test_json_for_programs_is_left_as_it_is(lorewell: Lorewell) -> None:
    book = lorewell.file("book.json", {"name": HOSTILE, "entries": [{"content": "x"}]})
    done = lorewell("import", book, "--json")
    assert "\u202e" in done.out
    assert done.json["book"]["name"] == HOSTILE


def test_all_output_goes_through_one_module() -> None:
    folder = Path(lorewell.cli.__file__).parent
    found = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if name.rpartition(".")[2] in {"echo", "secho", "print", "Console", "write"}:
                    found.add((path.stem, name))
    assert {module for module, _ in found} == {"printing", "chat"}
    assert {name for module, name in found if module == "chat"} == {"write"}  # of printing
