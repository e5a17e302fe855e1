"""One prompt and one text give the same entries on every door, under every policy."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from chat_upstream import chat_upstream
from lorewell.formats import open_book
from process import Server, running
from program import Lorewell, lorewell_fixture  # noqa: F401  a fixture
from service import Json

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("LOREWELL_CORPUS", ROOT.parent / "shared" / "corpus"))
SAMPLES = (ROOT / "examples" / "harbour.json", ROOT / "examples" / "mist-ferry.json")
FIVE = tuple(
    CORPUS / name
    for name in (
        "st_world/eldoria-default-2024.json",
        "st_world/honkai-impact-chub.json",
        "st_world/konosuba-tavernai-old.json",
        "risu/name-lorebook-list.json",
        "agnai_memory/hogwarts-agnai.json",
    )
)
TENANT = {"tenant_id": "demo"}
MOST_LINES = 200  # of /why in a chat
TEXT = (
    "船家，今晚能去对岸的灯塔吗？ The pilot of Axel and the wood of Eldoria, "
    "세계, the castle Hogwarts, Nazoza."
)
OWN: Mapping[str, Json] = {
    "native": {"strategy": "rules", "scan_depth": 1, "max_entries": 6, "token_budget": 700},
    "sillytavern": {
        "world_info_depth": 1,
        "world_info_recursive": False,
        "world_info_budget": 10,
        "context_tokens": 6_000,
    },
    "replica": {},
}


class Doors:
    """A service with a gateway and a demo, and prompts that use all books."""

    def __init__(self, server: Server, program: Lorewell) -> None:
        self.server, self.program = server, program
        self.book_ids: list[str] = []

    def call(self, method: str, path: str, **given: Any) -> Any:
        params = {**TENANT, **given.pop("params", {})}
        answer = self.server.client.request(method, path, params=params, **given)
        assert answer.is_success, answer.text
        return answer

    def store(self, *files: Path) -> None:
        for file in files:
            book = open_book(file).book
            # Each door draws with a seed of its own, so no entry rolls here.
            entries = [entry.model_copy(update={"probability": 100}) for entry in book.entries]
            document = book.model_copy(update={"entries": tuple(entries)}).model_dump(mode="json")
            made = self.call("POST", "/v1/books", json=document).json()
            self.book_ids.append(made["books"][0]["book_id"])

    def bind(self, prompt_id: str, policy: str, settings: Json) -> None:
        bindings = [{"book_id": book_id} for book_id in self.book_ids]
        body = {"bindings": bindings, "policy": policy, "settings": settings}
        self.call("PUT", "/v1/prompt-bindings", params={"prompt_id": prompt_id}, json=body)

    def gateway(self, prompt_id: str) -> list[str]:
        asked = {"model": "m", "messages": [{"role": "user", "content": TEXT}]}
        headers = {"X-Lorewell-Prompt": quote(prompt_id)}
        answer = self.call("POST", "/gateway/v1/chat/completions", json=asked, headers=headers)
        return chosen(
            self.call("GET", answer.headers["X-Lorewell-Ledger"].partition("?")[0]).json()
        )

    def demo(self, prompt_id: str) -> list[str]:
        said = {"conversation_id": f"demo {prompt_id}", "prompt_id": prompt_id, "input": TEXT}
        trace = self.call("POST", "/demo/api/chat", json=said).json()["trace"]
        keys = ("selected", "activated", "active")
        return sorted(
            each["id"] for each in trace["decisions"] if any(each.get(key) for key in keys)
        )

    def select(self, prompt_id: str) -> Json:
        done = self.program("select", *self._named(prompt_id), "--query", TEXT, "--json")
        return dict(done.json)

    def chat(self, prompt_id: str) -> list[str]:
        self.program.monkeypatch.setattr(sys, "stdin", io.StringIO(f"{TEXT}\n/why\n/quit\n"))
        done = self.program("chat", *self._named(prompt_id))
        assert done.code == 0, done.err
        return done.out.splitlines()

    def _named(self, prompt_id: str) -> tuple[str, ...]:
        return "--url", self.server.url, "--tenant", "demo", "--prompt", prompt_id

    def preview(self, prompt_id: str, policy: str, settings: Json) -> list[str]:
        body: Json = {"prompt_id": prompt_id}
        if policy == "native":
            books = [{"book_id": book_id} for book_id in self.book_ids]
            path, body = "/v1/context/preview", {**body, "books": books, "query": TEXT}
        elif policy == "sillytavern":
            path = "/v1/sillytavern/preview"
            body |= {"chat": [{"content": TEXT}], "context_tokens": 8_192}
            body |= {"macros": {"char": "Assistant", "user": "User"}}
            if settings:
                body["context_tokens"] = settings["context_tokens"]
            else:  # the budget of a turn
                body["settings"] = {"world_info_budget": 100, "world_info_budget_cap": 2_400}
        else:
            path, body = "/v1/replica/preview", {**body, "mes": TEXT}
        return chosen(self.call("POST", path, json=body).json())


def chosen(answer: Json) -> list[str]:
    """Return the ids of the entries that an answer of any policy takes, sorted."""
    if "blocks" in answer:
        return sorted(each["id"] for each in answer["blocks"])
    if "activated" in answer:
        return sorted(each["id"] for each in answer["activated"])
    return sorted(f"{each['book_id']}:{each['uid']}" for each in answer["entries"])


def decided(answer: Json) -> list[str]:
    """Return how the lines of the chat about each decision of an answer begin."""
    if "activated" in answer:
        return [f"{each['id']}: {each['reason']}" for each in answer["verdicts"]]
    name = "entry_id" if "blocks" in answer else "uid"
    return [f"{each[name]}: {each['reason']}" for each in answer["decisions"]]


@pytest.fixture(name="server", scope="module")
def server_of_doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("doors")
    url = f"sqlite:///{folder / 'lorewell.db'}"
    with (
        chat_upstream() as upstream,
        running(
            folder / "log",
            database_url=url,
            gateway_upstream_url=upstream.url,
            gateway_tenant="demo",
            demo_tenant="demo",
            turn_seconds=30,  # the machine may be busy
            queue_seconds=60,
        ) as server,
    ):
        yield server


@pytest.fixture(name="doors")
def doors_fixture(server: Server, lorewell: Lorewell) -> Doors:
    return Doors(server, lorewell)


@pytest.mark.long
@pytest.mark.parametrize("settings", [{}, OWN], ids=["defaults", "settings"])
@pytest.mark.parametrize("policy", ["native", "sillytavern", "replica"])
@pytest.mark.parametrize("files", [SAMPLES, FIVE], ids=["samples", "corpus"])
def test_one_text_gives_the_same_entries_on_every_door(
    doors: Doors, files: tuple[Path, ...], policy: str, settings: Mapping[str, Json]
) -> None:
    if not files[0].exists():
        pytest.skip(f"there is no corpus in {CORPUS}")
    own = settings.get(policy, {})
    prompt_id = f"{policy} {len(files)} {len(settings)} 雾"
    doors.store(*files)
    doors.bind(prompt_id, policy, {policy: own})
    wanted = doors.gateway(prompt_id)
    assert wanted
    assert doors.demo(prompt_id) == wanted
    answer = doors.select(prompt_id)
    assert chosen(answer) == wanted
    assert doors.preview(prompt_id, policy, own) == wanted
    said = doors.chat(prompt_id)
    placed = sum(line.startswith("  + ") for line in said)
    assert 0 < placed <= len(wanted)  # some have no place in a prompt
    reasons = decided(answer)[:MOST_LINES]
    begin = next(at for at, line in enumerate(said) if line.startswith(reasons[0]))
    pairs = zip(said[begin : begin + len(reasons)], reasons, strict=True)
    assert all(line.startswith(reason) for line, reason in pairs)
    if policy == "native":
        assert placed == len(wanted)
        if own:
            assert len(wanted) <= OWN["native"]["max_entries"]
            assert answer["token_budget"] == OWN["native"]["token_budget"]


def test_what_a_turn_asks_for_wins_over_the_settings(doors: Doors) -> None:
    doors.store(SAMPLES[0])
    doors.bind("own", "native", {"native": OWN["native"]})
    options = ("--budget", "300", "--strategy", "hybrid")
    named = ("--url", doors.server.url, "--tenant", "demo", "--prompt", "own")
    done = doors.program("select", *named, "--query", TEXT, *options, "--json").json
    assert done["token_budget"] == 300
    assert "policy native, strategy rules" in doors.program("select", *named, "--query", TEXT).words
    books = [{"book_id": doors.book_ids[0]}]
    body: Json = {"prompt_id": "own", "books": books, "query": TEXT}
    taken = [
        doors.call("POST", "/v1/context/preview", json={**body, **own}).json()["token_budget"]
        for own in ({}, {"token_budget": 1_000})
    ]
    assert taken == [700, 1_000]
    doors.bind("own", "sillytavern", {"sillytavern": OWN["sillytavern"]})
    scan: Json = {"prompt_id": "own", "chat": [{"content": TEXT}], "context_tokens": 1_000}
    scans = [
        doors.call("POST", "/v1/sillytavern/activate", json={**scan, **own}).json()
        for own in ({}, {"settings": {"world_info_budget": 50}})
    ]
    assert [each["budget"]["limit"] for each in scans] == [100, 500]
    replayed = doors.call("POST", "/v1/sillytavern/replay", json=scan).json()
    assert replayed["turns"][0]["budget"]["limit"] == 100


def test_source_of_a_binding_orders_the_books(doors: Doors) -> None:
    for name in ("one", "two"):
        entry = {"id": name, "content": f"{name}.", "constant": True, "position": "at_depth"}
        made = doors.call("POST", "/v1/books", json={"name": name, "entries": [entry]}).json()
        doors.book_ids.append(made["books"][0]["book_id"])
    first, second = doors.book_ids
    bindings = [{"book_id": first}, {"book_id": second, "source": "character"}]

    def activated(strategy: int) -> list[str]:
        settings = {"sillytavern": {"world_info_character_strategy": strategy}}
        body = {"bindings": bindings, "policy": "sillytavern", "settings": settings}
        doors.call("PUT", "/v1/prompt-bindings", params={"prompt_id": "sources"}, json=body)
        scan = {"prompt_id": "sources", "chat": [{"content": "x"}], "context_tokens": 8_192}
        found = doors.call("POST", "/v1/sillytavern/activate", json=scan).json()["activated"]
        return [each["book"] for each in found]

    assert activated(1) == ["two", "one"]
    assert activated(2) == ["one", "two"]
    body = {"bindings": bindings, "policy": "replica"}
    doors.call("PUT", "/v1/prompt-bindings", params={"prompt_id": "sources"}, json=body)
    answer = doors.call("POST", "/v1/replica/activate", json={"prompt_id": "sources", "mes": "x"})
    assert [each["source"] for each in answer.json()["books"]] == ["global", "character"]
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    headers = {"X-Lorewell-Prompt": "sources"}
    done = doors.call("POST", "/gateway/v1/chat/completions", json=asked, headers=headers)
    ledger = doors.call("GET", done.headers["X-Lorewell-Ledger"].partition("?")[0]).json()
    assert [each["source"] for each in ledger["books"]] == ["global", "character"]
    assert [each["revision"] for each in ledger["snapshot"]] == [1, 1]


def test_the_command_takes_of_a_file_what_a_chat_takes(lorewell: Lorewell) -> None:
    asked = ("select", "--book", SAMPLES[0], "--query", TEXT, "--seed", "chat:1")
    selected = lorewell(*asked, "--json").json
    lorewell.monkeypatch.setattr(sys, "stdin", io.StringIO(f"{TEXT}\n/quit\n"))
    chat = lorewell("chat", "--book", SAMPLES[0], "--policy", "native")
    lines = [line for line in chat.out.splitlines() if line.startswith("  + ")]
    titles = [each["title"] or each["entry_id"] for each in selected["blocks"]]
    assert len(lines) == len(titles) > 0
    assert all(any(line.startswith(f"  + {title}: ") for line in lines) for title in titles)
    assert "strategy hybrid" in lorewell(*asked).words
    assert "strategy rules" in lorewell(*asked, "--strategy", "rules").words
