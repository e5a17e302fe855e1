"""How a prompt is assembled, part by part: odd messages, SillyTavern's answers, tokens."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any

import pytest

from lorewell import (
    AttachedBook,
    AuthorsNote,
    ChatLine,
    SillyTavernRequest,
    SillyTavernResponse,
    activate,
)
from lorewell.engine.tokens import counter
from lorewell.errors import MalformedJsonError, PlacementFailedError, ValidationFailedError
from lorewell.host import (
    AssembleOptions,
    AssembleRequest,
    AssembleResponse,
    DraftMessage,
    HostBlock,
    PromptBudget,
    Source,
    TurnInputs,
    assemble,
    assemble_request,
    capabilities,
    from_activation,
    from_selection,
    make_query,
    merge,
    message_tokens,
    place,
    shared_prefix,
)
from lorewell.host.query import find_scene
from lorewell.model import BookRef
from lorewell.model.assemble import Activation, DraftKind
from lorewell.model.parse import parse_model
from support import BOOK_ID, ask, compiled, count_tokens, entry

COUNTER = counter()
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4_000}}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "灯", "arguments": '{"n":1e2}'}}
    ],
}
RESULT: dict[str, Any] = {"tool_call_id": "c1", "role": "tool", "content": "点亮了"}


def part(kind: DraftKind, role: str, content: Any, **members: Any) -> DraftMessage:
    return DraftMessage(kind=kind, message={"role": role, "content": content, **members})


CHARACTER = part("character", "system", "Marrow.")
BELL = part("input", "user", "I ring the bell.")


def block(name: str, position: Any, **fields: Any) -> HostBlock:
    return HostBlock(
        sources=(Source(name, "keyword"),), text=f"[{name}]", position=position, **fields
    )


def put(draft: Any, *blocks: HostBlock, **options: Any) -> AssembleResponse:
    return assemble(draft, blocks, AssembleOptions(**options), counter=COUNTER)


def contents(prompt: AssembleResponse) -> list[Any]:
    return [message["content"] for message in prompt.messages]


# Messages as providers have them


@pytest.mark.parametrize(
    "message",
    [
        CALL,
        RESULT,
        {"role": "user", "content": [{"type": "text", "text": "看"}, PICTURE]},
        {"role": "user", "content": [{"type": "text", "text": "看"}]},
        {"role": "user", "content": "看", "name": "Ann"},
        {"content": "看", "role": "user", "cache_control": {"type": "ephemeral"}, "n": 10**30},
        {"role": "assistant"},
    ],
    ids=str,
)
def test_what_is_no_plain_message_goes_out_as_it_came_in(message: dict[str, Any]) -> None:
    odd = DraftMessage(kind="chat", message=message)
    role = message["role"]
    around = [part("chat", role, "before"), odd, part("chat", role, "after")]
    prompt = put(around, block("E", "at_depth", role="user"))
    written = json.loads(prompt.to_json())["messages"]
    assert json.dumps(written[1]) == json.dumps(message)
    assert prompt.origins[1].parts[0].draft_index == 1


def test_a_message_about_a_tool_is_never_merged() -> None:
    draft = [part("tool", "user", "a"), part("tool", "user", "b"), part("chat", "user", "c")]
    assert contents(put(draft)) == ["a", "b", "c"]


def test_nothing_comes_between_a_call_of_a_tool_and_its_results() -> None:
    called = DraftMessage(kind="chat", message=CALL)
    result = DraftMessage(kind="tool", message=RESULT)
    draft = [part("chat", "user", "灯？"), called, result, result, part("template", "user", "x")]
    prompt = put(draft, block("E", "at_depth"), merge_adjacent=False)
    assert contents(prompt) == ["灯？", None, "点亮了", "点亮了", "[E]", "x"]


def test_a_developer_message_belongs_to_the_opening() -> None:
    draft = [part("template", "developer", "Rules."), part("chat", "user", "Hi."), BELL]
    assert contents(put(draft, block("B", "after_character")))[1] == "[B]"


def test_a_container_that_is_a_list_of_parts_is_no_place() -> None:
    parts = [{"type": "text", "text": "{{outlet::x}}"}]
    draft = [part("author_note", "system", parts), part("template", "system", parts), BELL]
    assert capabilities(draft).positions == ("before_character", "after_character", "at_depth")
    assert contents(put(draft))[:2] == [parts, parts]
    with pytest.raises(PlacementFailedError):
        put(draft, block("H", "author_note_top"))


def test_an_outlets_name_is_taken_without_the_blanks_around_it() -> None:
    draft = [part("template", "system", "{{outlet:: 规则 }}!"), BELL]
    assert capabilities(draft).outlets == ("规则",)
    assert contents(put(draft, block("J", "outlet", outlet_name="规则")))[0] == "[J]!"


def test_names_that_no_entry_can_have_are_not_offered() -> None:
    markers = "{{outlet::}}{{outlet::" + "n" * 101 + "}}"
    many = "".join(f"{{{{outlet::{number}}}}}" for number in range(60))
    assert "outlet" not in capabilities([part("template", "system", markers)]).positions
    offered = capabilities([part("template", "system", markers + many)])
    assert offered.outlets == tuple(map(str, range(50)))


def test_blocks_of_an_outlet_stand_one_to_a_line_and_other_members_stay() -> None:
    slot = part("character", "system", "Lore: {{outlet::x}}.", name="card")
    blocks = [
        block(name, "outlet", outlet_name="x", order=order) for order, name in enumerate("ab")
    ]
    prompt = put([slot, slot, BELL], *blocks)
    assert prompt.messages[0] == {"role": "system", "content": "Lore: [a]\n[b].", "name": "card"}
    assert prompt.messages[1]["content"] == "Lore: ."
    assert [each.ids for each in prompt.origins[0].parts] == [(), ("a",), ("b",), ()]


def test_a_blank_note_is_as_good_as_an_empty_one() -> None:
    blank = part("author_note", "system", " \u3000\n")
    around = [block("a", "author_note_top"), block("b", "author_note_bottom")]
    assert contents(put([blank, BELL], *around))[0] == "[a]\n[b]"
    assert contents(put([blank, BELL])) == ["I ring the bell."]


def test_merging_takes_no_longer_by_message_when_there_are_many() -> None:
    """A prompt of 10,000 neighbours took seconds as long as each one was joined to all before."""

    def took_s(count: int) -> float:
        made = [part("chat", "user", "灯塔 " * 50) for _ in range(count)]
        placed = place(made, []).messages
        begin = perf_counter()
        assert len(merge(placed)) == 1
        return perf_counter() - begin

    took_s(100)
    few_s, many_s = (min(took_s(count) for _ in range(3)) for count in (500, 10_000))
    print(f"merging: 500 messages {few_s * 1000:.1f} ms, 10,000 {many_s * 1000:.1f} ms")
    assert many_s < few_s * 20 * 10


# Queries


def query(draft: Any, saved: str = "", **fields: Any) -> Any:
    books = (BookRef(book_id=BOOK_ID, revision=2),)
    turn = TurnInputs(books=books, request_id="轮 1", saved_state=saved, **fields)
    return make_query(draft, turn)


def test_only_the_fields_of_the_contract_are_asked() -> None:
    asked = query([CHARACTER, BELL], '{"a": 1}', char="沈七", user=None)
    assert asked.request.model_dump(exclude_unset=True) == {
        "books": ({"book_id": BOOK_ID, "revision": 2},),
        "query": "I ring the bell.",
        "history": (),
        "state": {"a": 1},
        "strategy": "hybrid",
        "token_budget": 2400,
        "recall_floor": "auto",
        "seed": "轮 1",
        "template_vars": {"char": "沈七"},
        "placement_capabilities": {
            "positions": ("before_character", "after_character", "at_depth"),
            "outlets": (),
        },
    }
    assert (asked.state_source, asked.scene_source) == ("json", "none")


def test_an_unknown_user_is_not_sent_and_a_text_with_the_name_stays_out() -> None:
    asked = query([BELL]).request
    assert asked.template_vars == {}
    named = entry("e", "bell", content="{{user}} owes a coin.")
    answer = ask(compiled([named]), asked.query, template_vars=asked.template_vars)
    assert answer.decisions[0].reason == "template_missing"


def test_the_texts_among_parts_are_what_was_said() -> None:
    seen = [{"type": "text", "text": "看这盏灯"}, PICTURE, {"type": "text", "text": "🔥"}]
    asked = query([part("chat", "user", seen), part("input", "user", seen)]).request
    assert asked.query == "看这盏灯\n🔥"
    assert [each.content for each in asked.history] == ["看这盏灯\n🔥"]


def test_what_follows_the_input_is_no_history() -> None:
    assert query([BELL, part("chat", "assistant", "later")]).request.history == ()


def test_a_state_that_is_too_large_is_refused_and_not_emptied() -> None:
    with pytest.raises(ValidationFailedError) as failed:
        query([BELL], json.dumps({"a": "x" * 300_000}))
    assert [each.pointer for each in failed.value.faults] == ["/state"]
    with pytest.raises(MalformedJsonError):
        query([BELL], '{"a": ' + "[" * 200 + "]" * 200 + "}")
    assert query([BELL], "[" * 200).state_source == "none"


def test_a_state_that_is_no_unicode_is_no_object() -> None:
    assert query([BELL], '{"a": "\ud800"}').request.state == {}


def test_only_the_first_line_of_a_scene_counts() -> None:
    saved = "x Current scene: no\r\n\tCurrent scene: 渡口 \r\nCurrent scene: other"
    assert find_scene(None, saved) == ("渡口", "line")
    assert find_scene(None, "Current scene:\nCurrent scene: b") == ("", "none")
    assert find_scene({"current_scene": {"time": "夜"}}, saved) == ("夜", "json")


# Tokens


def test_what_is_no_text_counts_a_fixed_number_and_other_members_as_written() -> None:
    seen = {"role": "user", "content": [{"type": "text", "text": "看这盏灯"}, PICTURE]}
    assert message_tokens(seen, counter=COUNTER) == count_tokens("看这盏灯") + 1_000
    assert message_tokens(seen, counter=COUNTER, media_tokens=85) == count_tokens("看这盏灯") + 85
    calls = json.dumps(CALL["tool_calls"], ensure_ascii=False, separators=(",", ":"))
    assert message_tokens(CALL, counter=COUNTER) == count_tokens(calls)
    wanted = count_tokens("点亮了") + count_tokens("c1")
    assert message_tokens(RESULT, counter=COUNTER) == wanted
    assert message_tokens({"role": "assistant", "refusal": None}, counter=COUNTER) == 0


def test_figures_add_up() -> None:
    tool = {"type": "function", "function": {"name": "点灯"}}
    budget = PromptBudget(reserved_output=100, message_overhead=3, tools=(tool,))
    lore = block("灯", "at_depth", depth=1)
    figures = put([CHARACTER, BELL], lore, budget=budget).figures
    spoken = sum(map(count_tokens, ["Marrow.\n\n[灯]", "I ring the bell."]))
    tools = count_tokens(json.dumps(tool, ensure_ascii=False, separators=(",", ":")))
    assert figures.message_tokens == spoken
    assert figures.overhead_tokens == 6
    assert figures.tool_tokens == tools
    assert figures.needed_tokens == spoken + 6 + tools + 100
    assert figures.window_tokens is None
    assert figures.worldbook_tokens == count_tokens("[灯]")
    assert figures.history_tokens == count_tokens("I ring the bell.")


def test_the_same_beginning_ends_within_a_message_at_a_whole_word() -> None:
    budget = PromptBudget(message_overhead=4)
    rules = {"role": "system", "content": "House style."}
    prefix = shared_prefix(
        [rules, {"role": "user", "content": "The lamp is lit"}],
        [rules, {"role": "user", "content": "The lamp is lighter"}, rules],
        budget,
        counter=COUNTER,
    )
    assert prefix.message_count == 1
    assert prefix.token_count == count_tokens("House style.") + 4 + count_tokens("The lamp is")
    other = shared_prefix(
        [rules], [{"role": "user", "content": "House style."}], budget, counter=COUNTER
    )
    assert (other.message_count, other.token_count) == (0, 0)
    assert shared_prefix([], [rules], budget, counter=COUNTER).prompt_tokens == 0
    assert put([BELL]).prefix is None


# A stable beginning

LORE = [
    entry("law", constant=True, order=5),
    entry("map", constant=True, order=1, position="after_character"),
    entry("oath", required=True, order=3),
    entry("bell", "bell", order=-5),
    entry("moat", "moat", order=-4, position="after_character"),
]


def turn(said: str, *, stable: bool) -> AssembleResponse:
    draft = [part("template", "system", "House."), CHARACTER, part("input", "user", said)]
    blocks = from_selection(ask(compiled(LORE), said, token_budget=4000).blocks)
    return put(draft, *blocks, stable_prefix=stable, merge_adjacent=False)


def ids(prompt: AssembleResponse) -> list[str]:
    return [
        part.ids[0].rpartition(":")[2] if part.ids else "-"
        for origin in prompt.origins
        for part in origin.parts
    ]


def test_lasting_lore_stands_first_and_the_rest_after_the_character() -> None:
    plain = turn("the bell and the moat", stable=False)
    assert ids(plain) == ["-", "bell", "oath", "law", "-", "moat", "map", "-"]
    stable = turn("the bell and the moat", stable=True)
    assert ids(stable) == ["-", "oath", "law", "-", "map", "bell", "moat", "-"]
    moved = {each.id.rpartition(":")[2]: each.position for each in stable.placements}
    assert moved["bell"] == "after_character"
    assert moved["law"] == "before_character"


def test_a_stable_beginning_is_cached_further() -> None:
    def cached(*, stable: bool) -> int:
        first, second = turn("the bell", stable=stable), turn("the moat", stable=stable)
        return shared_prefix(
            second.messages, first.messages, PromptBudget(), counter=COUNTER
        ).message_count

    assert cached(stable=False) == 1
    assert cached(stable=True) == 5


# What SillyTavern's rules answer

WORLD: dict[str, Any] = {
    str(uid): {"uid": uid, "key": ["lamp"], "content": f"灯 <{uid}>", "order": 100, **fields}
    for uid, fields in enumerate(
        [
            {"position": 0, "order": 10},
            {"position": 0, "order": 20, "constant": True},
            {"position": 1, "order": 5},
            {"position": 2},
            {"position": 3},
            {"position": 4, "depth": 1, "role": 1, "order": 7},
            {"position": 4, "depth": 1, "role": 1, "order": 8},
            {"position": 5, "order": 1},
            {"position": 5, "order": 2},
            {"position": 6},
            {"position": 7, "outletName": "规则", "order": 1},
            {"position": 7, "outletName": "规则", "order": 2},
            {"position": 0, "order": 15, "sticky": 3},
            {"position": 4, "depth": 0, "role": 2},
        ]
    )
}


def activation(*said: str, **fields: Any) -> SillyTavernResponse:
    request = SillyTavernRequest(
        books=(AttachedBook(name="W", entries=WORLD),),
        context_tokens=8_000,
        chat=tuple(ChatLine(content=text) for text in said or ("the lamp",)),
        authors_note=AuthorsNote(value="Slow burn."),
        **fields,
    )
    return activate([], request)


FULL = [
    part("template", "system", "Rules: {{outlet::规则}}"),
    CHARACTER,
    part("examples", "system", "Sample."),
    part("author_note", "system", "Slow burn."),
    part("chat", "assistant", "Night."),
    part("input", "user", "the lamp"),
]


def test_the_texts_of_sillytavern_stand_plain_in_their_places() -> None:
    answer = activation()
    prompt = put(FULL, *from_activation(answer), merge_adjacent=False)
    assert contents(prompt) == [
        "Rules: 灯 <11>\n灯 <10>",
        "灯 <0>\n灯 <12>\n灯 <1>",
        "Marrow.",
        "灯 <2>",
        "灯 <8>",
        "灯 <7>",
        "Sample.",
        "灯 <9>",
        "灯 <3>\nSlow burn.\n灯 <4>",
        "Night.",
        "灯 <5>\n灯 <6>",
        "the lamp",
        "灯 <13>",
    ]
    assert answer.authors_note == prompt.messages[8]["content"]
    assert [prompt.messages[index]["role"] for index in (10, 12)] == ["user", "assistant"]
    placed = {each.id: each.reason for each in prompt.placements}
    assert placed == {each.id: each.reason for each in answer.activated}
    assert len(prompt.placements) == len(WORLD)


def test_where_sillytavern_shows_nothing_entries_are_left_out_and_named() -> None:
    draft = [part("template", "system", "House."), CHARACTER, BELL]
    prompt = put(draft, *from_activation(activation()), merge_adjacent=False)
    left_out = {each.id for each in prompt.placements if each.message_index is None}
    assert left_out == {"W.3", "W.4", "W.10", "W.11"}
    examples = ["灯 <2>", "灯 <8>", "灯 <7>", "灯 <9>"]
    assert contents(prompt)[3:7] == examples
    assert len(prompt.placements) == len(WORLD)


def test_a_sticky_entry_lasts_from_its_first_turn_on() -> None:
    first = activation()
    second = activation("a", "b", "c", timed_state=first.timed_state)
    for answer in (first, second):
        blocks = from_activation(answer, split_lasting=True)
        lasting = {each.ids: each.lasting for each in blocks if each.position == "before_character"}
        assert lasting[("W.1",)] == "constant"
        assert lasting[("W.12",)] == "sticky"
        assert lasting.get(("W.0",)) is None
    prompt = put(FULL, *from_activation(first, split_lasting=True), stable_prefix=True)
    text = prompt.messages[0]["content"]
    assert text.index("<1>") < text.index("<12>") < text.index("Marrow.") < text.index("<0>")


def test_a_whole_answer_may_be_posted_as_it_is() -> None:
    answer = activation(explain="full")
    draft = [json.loads(item.model_dump_json()) for item in FULL]
    document = {"draft": draft, "sillytavern": json.loads(answer.to_json())}
    request = parse_model(AssembleRequest, document)
    assembled = assemble_request(request, counter=COUNTER)
    assert assembled == put(FULL, *from_activation(answer))


def test_texts_that_were_changed_since_still_name_their_entries() -> None:
    changed = Activation.model_validate(
        {
            "activated": [
                {"id": "W.1", "content": "a", "position": 0, "order": 1, "reason": "primary"},
                {"id": "W.2", "content": "b", "position": 0, "order": 2, "reason": "constant"},
            ],
            "world_info_before": "A\nB",
            "world_info_after": "unknown",
        }
    )
    before, after = from_activation(changed, split_lasting=True)
    assert (before.text, before.ids, before.lasting) == ("A\nB", ("W.1", "W.2"), None)
    assert (after.text, after.ids) == ("unknown", ())
    prompt = put([CHARACTER], before, after, merge_adjacent=False)
    assert contents(prompt) == ["A\nB", "Marrow.", "unknown"]


@pytest.mark.parametrize(
    ("depth", "role", "expected"),
    [
        (2, 1, (2, "user")),
        (2.9, 2.0, (2, "assistant")),
        (None, None, (4, "system")),
        ("3", "user", (4, "system")),
        (-1, 7, (4, "system")),
        (10**40, 0, (10_000, "system")),
        ([1], {"a": 1}, (4, "system")),
    ],
)
def test_an_odd_depth_or_role_takes_what_is_usual(depth: Any, role: Any, expected: Any) -> None:
    group = {"depth": depth, "role": role, "entries": ["x"]}
    (made,) = from_activation(Activation.model_validate({"depth_groups": [group]}))
    assert (made.depth, made.role) == expected


def test_entries_without_an_order_are_told_apart_as_they_were_sorted() -> None:
    world = {uid: {**fields} for uid, fields in WORLD.items()}
    del world["3"]["order"], world["7"]["order"]
    request = SillyTavernRequest(
        books=(AttachedBook(name="W", entries=world),),
        context_tokens=8_000,
        chat=(ChatLine(content="lamp"),),
    )
    blocks = from_activation(activate([], request), split_lasting=True)
    before = {each.ids for each in blocks if each.position == "before_character"}
    assert before == {("W.0",), ("W.1",), ("W.12",)}


def test_answers_themselves_go_into_a_request() -> None:
    answer = activation()
    request = AssembleRequest.model_validate({"draft": FULL, "sillytavern": answer})
    assembled = assemble_request(request, counter=COUNTER)
    assert assembled == put(FULL, *from_activation(answer))
    blocks = ask(compiled(LORE), "bell").blocks
    request = AssembleRequest.model_validate({"draft": FULL, "blocks": blocks})
    assert assemble_request(request, counter=COUNTER) == put(FULL, *from_selection(blocks))


def test_empty_texts_go_nowhere() -> None:
    given = {"examples": [{"position": 0, "content": ""}], "authors_note_top": ["", "x"]}
    (made,) = from_activation(Activation.model_validate(given))
    assert (made.position, made.text) == ("author_note_top", "x")
