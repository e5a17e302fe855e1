"""Turns on books at hand, and where conversations are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from lorewell import load_book, load_world
from lorewell.cli.turn_lines import injected_lines
from lorewell.engine.tokens import counter
from lorewell.errors import BookNotFoundError, LorewellError, PolicyMismatchError
from lorewell.host import DraftMessage
from lorewell.model import ResolvedBindings, SillyTavernResponse
from lorewell.model.activate import AttachedBook
from lorewell.model.conversation import ActivateRequest
from lorewell.model.parse import parse_model
from lorewell.model.prompt_settings import PromptSettings
from lorewell.model.scene import Scene
from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn import (
    ConversationKey,
    ConversationRecord,
    FileConversations,
    FileLore,
    MemoryConversations,
    PreparedTurn,
    TurnError,
    TurnHost,
    TurnInput,
)
from lorewell.turn.conversations import conversation_name
from program import Lorewell
from replica_books import conditional, constant, keyed
from world_info import expand

Result = TypeVar("Result")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CONFIG = WorldbookConfig(tenant_id="demo", trace_content=True)


def run(work: Awaitable[Result]) -> Result:
    async def wait() -> Result:
        return await work

    return asyncio.run(wait())


def item(kind: Any, role: str, content: str) -> DraftMessage:
    return DraftMessage(kind=kind, message={"role": role, "content": content})


def turn_input(*said: str, request_id: str = "r1", **members: Any) -> TurnInput:
    """Return the input after these messages, by turns of user and assistant."""
    chat = [item("chat", ("user", "assistant")[at % 2], text) for at, text in enumerate(said)]
    last = item("input", "user", said[-1])
    return TurnInput(
        request_id=request_id,
        user_id="用户",
        conversation_id="c/1",
        prompt_id="p",
        draft=[item("character", "system", "沈七，守渡人。"), *chat[:-1], last],
        **members,
    )


def prepare(lore: FileLore, *said: str, **members: Any) -> PreparedTurn:
    return run(TurnHost(CONFIG, lore).begin(turn_input(*said, **members)).prepare())


@pytest.fixture(name="files")
def make_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Lorewell:
    return Lorewell(tmp_path, monkeypatch, capfd)


def world(files: Lorewell, *entries: dict[str, Any], name: str = "雾隐渡.json") -> Path:
    numbered = {str(uid): expand({"uid": uid, **each}) for uid, each in enumerate(entries)}
    return files.file(name, {"entries": numbered})


def test_native_books_run_natively_as_files_or_compiled(files: Lorewell) -> None:
    bell = files.book({"id": "our-bell", "keys": ["钟"], "content": "钟归沈七管。"})
    harbour = load_book(EXAMPLES / "harbour.json")
    lore = FileLore([bell, harbour, str(EXAMPLES / "mist-ferry.json")])
    assert lore.policy == "native"
    prepared = prepare(lore, "我敲钟。")
    told = prepared.trace.members()
    assert (told["policy"], len(told["books"])) == ("native", 3)
    contents = {each["id"].rpartition(":")[2]: each["content"] for each in told["placements"]}
    assert contents["our-bell"] == "钟归沈七管。"
    assert told["selection"]["duration_ms"] > 0


def test_world_info_runs_as_in_sillytavern(files: Lorewell) -> None:
    path = world(
        files,
        {"key": ["钟"], "content": "<b> {{user}}听见钟声。", "position": 4, "depth": 0, "role": 0},
        {"key": ["潮"], "content": "潮影。"},
        {"key": ["守渡人"], "content": "旧名。", "matchCharacterDescription": True},
    )
    lore = FileLore([path])
    assert lore.policy == "sillytavern"
    prepared = prepare(lore, "你好。", "嗯。", "我敲钟。", char="沈七", user="小明")
    assert prepared.messages[-1] == {"role": "system", "content": "<b> 小明听见钟声。"}
    told = prepared.trace.members()
    assert {each["id"]: each["activated"] for each in told["decisions"]} == {
        "雾隐渡.0": True,
        "雾隐渡.1": False,
        "雾隐渡.2": True,
    }
    assert (told["query_chars"], told["history_count"]) == (4, 2)
    assert told["selection"]["policy_version"].startswith("sillytavern/")
    assert told["selection"]["token_count"] > 0
    assert {each["content"] for each in told["placements"]} == {"<b> 小明听见钟声。", "旧名。"}


def test_the_budget_of_the_configuration_counts_for_sillytavern_too(files: Lorewell) -> None:
    path = world(files, {"constant": True, "content": "常。" * 50})
    small = CONFIG.model_copy(update={"token_budget": 20})
    nothing = CONFIG.model_copy(update={"token_budget": 0})
    for config in (small, nothing):
        prepared = run(TurnHost(config, FileLore([path])).begin(turn_input("钟")).prepare())
        assert "常。" not in str(prepared.messages)
    assert "常。" in str(prepare(FileLore([path]), "钟").messages)


def test_timed_effects_follow_the_chat_and_a_swipe_begins_as_before(files: Lorewell) -> None:
    path = world(files, {"key": ["钟"], "content": "余音。", "sticky": 4})
    settings = {"user": "小明"}
    lore = FileLore([path])
    opening = ["我敲钟。"]
    following = [*opening, "响了。", "然后呢？"]
    assert "余音。" in str(prepare(lore, *opening, **settings).messages)
    for _ in range(2):  # the same turn again, as a swipe asks it
        assert "余音。" in str(prepare(lore, *following, **settings).messages)
    edited = ["我不敲。", *following[1:]]
    assert "余音。" not in str(prepare(lore, *edited, **settings).messages)


def test_timed_effects_go_on_though_only_the_last_messages_are_sent(files: Lorewell) -> None:
    late = {"constant": True, "content": "迟来。", "delay": 7}
    lore = FileLore([world(files, {"key": ["钟"], "content": "余音。", "sticky": 6}, late)])
    told = ["我敲钟。", "响了。", "然后呢？", "没人来。", "我等着。", "天亮了。", "我走了。"]
    for count in (1, 3, 5):
        prepared = prepare(lore, *told[:count])
        assert "余音。" in str(prepared.messages)
        assert "迟来。" not in str(prepared.messages)
    trimmed = str(prepare(lore, *told[2:]).messages)
    assert "迟来。" in trimmed
    assert "余音。" not in trimmed
    lost = prepare(lore, "别的。", "完全。", "不同。")
    assert isinstance(lost.lore.answer, SillyTavernResponse)
    assert lost.lore.answer.conversation is not None
    assert lost.lore.answer.conversation.state == "lost"
    assert "lost" in injected_lines(lost, counter())[-1]


def test_states_in_memory_are_bounded(files: Lorewell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lorewell.turn.files._MAX_STATES", 2)
    lore = FileLore([world(files, {"key": ["钟"], "content": "钟。", "sticky": 9})])
    for number in range(4):
        prepare(lore, f"钟 {number}")
    (states,) = lore._states.values()
    assert len(states) == 2


def test_without_a_conversation_no_state_is_kept(files: Lorewell) -> None:
    lore = FileLore([world(files, {"key": ["钟"], "content": "钟。", "sticky": 9})])
    ref = run(lore.resolve_bindings("p")).books[0]
    document = {"chat": [{"content": "钟"}], "context_tokens": 1_000}
    request = ActivateRequest(**document, books=(AttachedBook(book_id=ref.book_id),))
    assert run(lore.activate_for_turn(request)).conversation is None
    other = AttachedBook(book_id="other")
    with pytest.raises(BookNotFoundError):
        run(lore.activate_for_turn(request.model_copy(update={"books": (other,)})))


def test_books_of_two_policies_do_not_mix(files: Lorewell) -> None:
    path = world(files, {"key": ["钟"]})
    compiled, attached = load_book(EXAMPLES / "harbour.json"), load_world(path)
    assert FileLore([attached]).policy == "sillytavern"
    assert FileLore([path], policy="native").policy == "native"
    for books in ([compiled, attached], [compiled, path]):
        with pytest.raises(PolicyMismatchError):
            FileLore(books)
    for book in (compiled, attached):
        with pytest.raises(PolicyMismatchError):
            FileLore([book], policy="replica")
    with pytest.raises(LorewellError):
        FileLore([files.file("broken.json", b"{")])


def test_files_run_by_the_rules_of_sillytavern_replica(files: Lorewell) -> None:
    entries = [
        keyed("tower", "灯塔", content="哑女看守。", position=4),
        conditional("strong", "tb.hero.力量 > 10", content="力大无穷。", position=1),
        constant("off", disable=True),
    ]
    path = files.file("渡口.json", {"name": "渡口", "entries": entries})
    assert FileLore([path]).policy == "native"  # as for a prompt
    lore = FileLore([path, EXAMPLES / "harbour.json"], policy="replica")
    state = '{"hero": {"力量": 15}}'
    prepared = prepare(lore, "夜深了", "是的", "去灯塔", saved_state=state, char="沈七")
    texts = [message["content"] for message in prepared.messages]
    assert texts[0].startswith("力大无穷。\n\n")
    assert texts[-2:] == ["哑女看守。", "去灯塔"]
    decisions = prepared.trace.members()["decisions"]
    assert decisions[0]["id"] == "0:渡口:tower"
    assert decisions[0]["facts"]["keys"] == ("灯塔",)
    assert [ref.book_id for ref in prepared.trace.books] == ["0:渡口", "1:Saltglass Harbour 盐镜港"]


def keys(*users: str) -> Sequence[ConversationKey]:
    return [
        ConversationKey(tenant_id="demo", user_id=user, conversation_id="灯/1") for user in users
    ]


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_a_conversation_keeps_its_first_prompt(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    kept = MemoryConversations() if kind == "memory" else FileConversations(folder)
    first, second = keys("\ud800", "b")
    record = ConversationRecord(prompt_id="p", scene_id="pier")

    async def use() -> list[str]:
        at_once = [kept.note(first, ConversationRecord(prompt_id=f"p{n}")) for n in range(8)]
        prompts = await asyncio.gather(*at_once)
        assert len(set(prompts)) == 1
        other = [await kept.note(second, record), await kept.note(second, record)]
        moved = ConversationRecord(prompt_id="p", scene_id="雾")
        return [*other, await kept.note(second, moved), await kept.note(first, record)]

    *own, others = run(use())
    assert own == ["p", "p", "p"]
    assert others != "p"
    if kind == "files":
        again = FileConversations(folder)
        assert run(again.note(second, ConversationRecord(prompt_id="q"))) == "p"
        assert len(list(folder.iterdir())) == 2


def test_names_of_conversations_never_meet() -> None:
    ids = ["a", "a:b", "a%3Ab", "a/b", "b", "", "用户", "u" * 300, "\n", "\ud800"]
    names = {
        conversation_name(ConversationKey(tenant_id="t", user_id=user, conversation_id=each))
        for user in ids
        for each in ids
    }
    assert len(names) == len(ids) ** 2
    assert all(len(name) <= 200 and "/" not in name and name.isprintable() for name in names)


# The scene

SCENE = {
    "state": {"storm": True},
    "tables": {"力量": 15},
    "names": {"char": "沈七", "user": "小明"},
    "note": {"text": "简短。", "depth": 1},
    "trigger": "swipe",
    "character": {"file": "沈七.png"},
}


def scene(**members: Any) -> Scene:
    return parse_model(Scene, members)


def test_a_turn_takes_the_scene_under_every_policy(files: Lorewell) -> None:
    native = files.book(
        {"id": "n", "constant": True, "content": "{{char}}/{{user}}"},
        {"id": "s", "constant": True, "content": "S", "conditions_text": ["tb.storm = true"]},
        {"id": "t", "constant": True, "content": "T", "position": "author_note_top"},
    )
    prepared = prepare(FileLore([native]), "你好。", scene=scene(**SCENE))
    contents = {
        each["id"].rpartition(":")[2]: each["content"]
        for each in prepared.trace.members()["placements"]
    }
    assert contents == {"n": "沈七/小明", "s": "S", "t": "T"}
    assert any("\n简短。" in str(each["content"]) for each in prepared.messages)
    unused = [each["member"] for each in prepared.trace.members()["warnings"]]
    assert unused == ["character.file", "trigger"]

    path = world(
        files,
        {"constant": True, "content": "{{char}}/{{user}}", "position": 0},
        {"constant": True, "content": "F", "characterFilter": {"names": ["沈七"]}, "position": 0},
        {"constant": True, "content": "W", "triggers": ["swipe"], "position": 0},
        {"key": ["小明:"], "content": "L", "position": 0},
        {"constant": True, "content": "T", "position": 2},
    )
    prepared = prepare(FileLore([path]), "你好。", scene=scene(**SCENE))
    texts = [str(each["content"]) for each in prepared.messages]
    assert {"沈七/小明", "F", "W", "L"} <= set(texts[0].splitlines())
    assert texts[0].endswith("\n\nT\n简短。")  # the note joins the system message

    book = files.file("r.json", {"name": "r", "entries": [conditional("s", "tb.力量 > 9")]})
    prepared = prepare(FileLore([book], policy="replica"), "你好。", scene=scene(**SCENE))
    assert "C-s" in str(prepared.messages)


def test_a_scene_says_nothing_that_the_input_says_too(files: Lorewell) -> None:
    lore = FileLore([files.book({"id": "n", "content": "x"})])

    def fails(**given: Any) -> tuple[str, str]:
        with pytest.raises(TurnError) as error:
            prepare(lore, "x", **given)
        return error.value.stage, str(error.value.cause)

    assert fails(saved_state="{}", scene=scene(tables={"a": 1})) == (
        "select",
        "/scene/state: is also given in saved_state",
    )
    assert fails(char="A", scene=scene(character={"name": "B"})) == (
        "select",
        "/scene/names/char: is also given in char",
    )
    note = [item("author_note", "system", "Mine."), item("input", "user", "x")]
    turn = TurnInput(
        request_id="r",
        user_id="u",
        conversation_id="c",
        prompt_id="p",
        draft=note,
        scene=scene(note={"text": "Yours."}),
    )
    with pytest.raises(TurnError, match="/scene/note: is also given by a message"):
        run(TurnHost(CONFIG, lore).begin(turn).prepare())
    assert fails(scene=scene(tokenizer="words"))[1].startswith("/scene/tokenizer: must be one of")


def test_a_scene_may_turn_lore_off_and_keep_the_note(files: Lorewell) -> None:
    lore = FileLore([files.book({"id": "n", "content": "x", "required": True})])
    given = scene(enabled=False, note={"text": "简短。", "position": "after_prompt"})
    prepared = prepare(lore, "x", scene=given)
    assert prepared.lore.skipped == "disabled"
    assert "简短。" in str(prepared.messages)
    assert prepared.trace.members()["warnings"] == []


def test_a_scene_counts_by_its_tokenizer(files: Lorewell) -> None:
    lore = FileLore([files.book({"id": "n", "content": "x"})])
    prepared = prepare(lore, "x", scene=scene(tokenizer="o200k_base"))
    assert prepared.prompt is not None
    assert prepared.prompt.figures.tokenizer == "o200k_base"


class BoundLore(FileLore):
    """Local books whose prompt names a tokenizer in its settings."""

    tokenizer = "gpt-4o"

    async def resolve_bindings(self, prompt_id: str, /) -> ResolvedBindings:
        bindings = await super().resolve_bindings(prompt_id)
        settings = PromptSettings(scene=Scene(tokenizer=self.tokenizer))
        return bindings.model_copy(update={"settings": settings})


def test_a_prompt_counts_by_the_tokenizer_of_its_settings(files: Lorewell) -> None:
    lore = BoundLore([files.book({"id": "n", "content": "x"})])

    def counted(**members: Any) -> str:
        prepared = prepare(lore, "x", **members)
        assert prepared.prompt is not None
        return prepared.prompt.figures.tokenizer

    assert counted() == "o200k_base"
    assert counted(scene=scene(tokenizer="cl100k_base")) == "cl100k_base"
    assert counted(scene=scene(tokenizer="o200k_base"), counter=counter()) == "cl100k_base"
    lore.tokenizer = "claude"  # whose file only the service has
    assert counted() == "cl100k_base"
