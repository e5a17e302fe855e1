"""The acceptance cases of docs/rules/host.md §16 on a prompt alone, and its example (§15)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from lorewell.engine.tokens import counter
from lorewell.errors import ContextOverflowError, PlacementFailedError
from lorewell.host import (
    AssembleOptions,
    AssembleResponse,
    DraftMessage,
    HostBlock,
    PromptBudget,
    Source,
    TurnInputs,
    assemble,
    capabilities,
    from_selection,
    make_query,
)
from lorewell.model import BookRef
from lorewell.model.assemble import DraftKind
from support import BOOK_ID, ask, compiled, entry, reasons

COUNTER = counter()
BOOKS = (BookRef(book_id=BOOK_ID, revision=1),)
OPEN = AssembleOptions(merge_adjacent=False)


def part(kind: DraftKind, role: str, content: Any, **members: Any) -> DraftMessage:
    return DraftMessage(kind=kind, message={"role": role, "content": content, **members})


HOUSE = part("template", "system", "House style.")
CHARACTER = part("character", "system", "Marrow, toll keeper.")
EXAMPLES = part("examples", "system", "Sample lines.")
EVENING = part("chat", "user", "Evening.")
PIER = part("chat", "assistant", "The pier is wet.")
BELL = part("input", "user", "I ring the bell.")
DRAFT = (HOUSE, CHARACTER, EXAMPLES, EVENING, PIER, BELL)


def block(name: str, position: Any, **fields: Any) -> HostBlock:
    return HostBlock(
        sources=(Source(name, "keyword"),), text=f"[{name}]", position=position, **fields
    )


def put(
    draft: Sequence[DraftMessage],
    *blocks: HostBlock,
    options: AssembleOptions = OPEN,
) -> AssembleResponse:
    return assemble(draft, blocks, options, counter=COUNTER)


def contents(prompt: AssembleResponse) -> list[Any]:
    return [message["content"] for message in prompt.messages]


def texts(draft: Sequence[DraftMessage], *blocks: HostBlock) -> list[Any]:
    return contents(put(draft, *blocks))


def asked(draft: Sequence[DraftMessage], saved: str = "", **fields: Any) -> Any:
    inputs = TurnInputs(books=BOOKS, request_id="turn 1", saved_state=saved, **fields)
    return make_query(draft, inputs).request


A = block("A", "before_character")
B = block("B", "after_character")
C = block("C", "before_examples")
D = block("D", "after_examples")
E = block("E", "at_depth", depth=2)
F = block("F", "at_depth", depth=1, role="user")
G = block("G", "at_depth")
LETTERS = (A, B, C, D, E, F, G)
SYSTEM = [
    "House style.",
    "[A]",
    "Marrow, toll keeper.",
    "[B]",
    "[C]",
    "Sample lines.",
    "[D]",
]
REST = ["Evening.", "[E]", "The pier is wet.", "[F]", "I ring the bell.", "[G]"]


def test_worked_example_before_merging() -> None:
    prompt = put(DRAFT, *LETTERS)
    assert contents(prompt) == [*SYSTEM, *REST]
    assert [each.id for each in prompt.placements] == list("ABCDEFG")
    assert [each.message_index for each in prompt.placements] == [1, 3, 4, 6, 8, 10, 12]
    assert prompt.messages[10]["role"] == "user"


def test_worked_example_after_merging() -> None:
    prompt = put(DRAFT, *LETTERS, options=AssembleOptions())
    assert [(each["role"], each["content"]) for each in prompt.messages] == [
        ("system", "\n\n".join(SYSTEM)),
        ("user", "Evening."),
        ("system", "[E]"),
        ("assistant", "The pier is wet."),
        ("user", "[F]\n\nI ring the bell."),
        ("system", "[G]"),
    ]
    assert [each.history_count for each in prompt.origins] == [0, 1, 0, 1, 1, 0]
    assert [each.message_index for each in prompt.placements] == [0, 0, 0, 0, 2, 4, 5]


def test_worked_example_without_a_character() -> None:
    draft = (HOUSE, EXAMPLES, EVENING, PIER, BELL)
    head = ["[A]", "House style.", "[C]", "Sample lines.", "[B]", "[D]"]
    assert texts(draft, *LETTERS) == [*head, *REST]


def test_worked_example_offers_five_places() -> None:
    assert capabilities(DRAFT).positions == (
        "before_character",
        "after_character",
        "before_examples",
        "after_examples",
        "at_depth",
    )
    assert capabilities(DRAFT).outlets == ()


def chat(*said: str) -> list[DraftMessage]:
    return [part("chat", ("user", "assistant")[at % 2], text) for at, text in enumerate(said)]


def test_05_the_last_20_messages_are_sent_oldest_first_without_system() -> None:
    past = chat(*(f"n{number} 灯" for number in range(30)))
    past.insert(15, part("chat", "system", "A note."))
    past.insert(16, part("tool", "assistant", "Called.", tool_calls=[]))
    past.insert(17, part("chat", "user", " \u3000\n"))
    request = asked([HOUSE, CHARACTER, *past, BELL])
    assert [each.content for each in request.history] == [f"n{n} 灯" for n in range(10, 30)]
    assert {each.role for each in request.history} == {"user", "assistant"}


def test_06_a_message_of_17000_characters_is_cut_to_16000() -> None:
    (message,) = asked([*chat("灯" * 17_000), BELL]).history
    assert message.content == "灯" * 16_000


def test_07_the_scene_is_cut_before_the_input() -> None:
    said = part("input", "user", "i" * 7_990)
    query = asked([said], "Current scene: " + "s" * 100).query
    assert query == "i" * 7_990 + "\n" + "s" * 9


def test_08_json_state_goes_whole_and_gives_the_scene() -> None:
    state = {"current_scene": {"location": "toll pier", "time": "low tide"}, "weather": {"a": 1}}
    request = asked([BELL], json.dumps(state))
    assert request.state == state
    assert request.query == "I ring the bell.\ntoll pier; low tide"
    odd = {"current_scene": {"location": 4, "time": "", "situation": "雾起"}}
    assert asked([BELL], json.dumps(odd)).query == "I ring the bell.\n雾起"
    assert asked([BELL], '{"current_scene": "pier"}').query == "I ring the bell."


def test_09_plain_text_gives_an_empty_state_and_the_scene_line() -> None:
    said = part("input", "user", "I show Marrow my token.")
    request = asked([said], "Mood: tense\n  Current scene: toll pier, low tide \nWeather: storm")
    assert request.query == "I show Marrow my token.\ntoll pier, low tide"
    assert request.state == {}


@pytest.mark.parametrize("saved", ["[1, 2]", "7", "", "{broken", '"x"', "null", '{"a": NaN}'])
def test_10_what_is_no_json_object_gives_an_empty_state(saved: str) -> None:
    request = asked([BELL], saved)
    assert (request.state, request.query) == ({}, "I ring the bell.")


NOTE = part("author_note", "assistant", "Slow burn.")
SLOTS = part("template", "user", "Rules: {{outlet::rules}} End. {{outlet::rules}}{{outlet::x}}")


@pytest.mark.parametrize(
    ("draft", "placed", "expected"),
    [
        (DRAFT[:2], A, ["House style.", "[A]", "Marrow, toll keeper."]),
        ((CHARACTER, HOUSE, CHARACTER), A, ["[A]", CHARACTER, HOUSE, CHARACTER]),
        ((CHARACTER, HOUSE, CHARACTER, BELL), B, [CHARACTER, HOUSE, CHARACTER, "[B]", BELL]),
        ((HOUSE, EXAMPLES, HOUSE, EXAMPLES), C, [HOUSE, "[C]", EXAMPLES, HOUSE, EXAMPLES]),
        ((EXAMPLES, HOUSE, EXAMPLES, BELL), D, [EXAMPLES, HOUSE, EXAMPLES, "[D]", BELL]),
        ((NOTE,), block("H", "author_note_top"), ["[H]\nSlow burn."]),
        ((NOTE,), block("I", "author_note_bottom"), ["Slow burn.\n[I]"]),
        ((EVENING, PIER, BELL), E, [EVENING, "[E]", PIER, BELL]),
        ((SLOTS,), block("J", "outlet", outlet_name="rules"), ["Rules: [J] End. "]),
    ],
)  # fmt: skip
def test_19_each_position_has_its_place(
    draft: Sequence[DraftMessage], placed: HostBlock, expected: Sequence[Any]
) -> None:
    wanted = [
        each.message["content"] if isinstance(each, DraftMessage) else each for each in expected
    ]
    prompt = put(draft, placed)
    assert contents(prompt) == wanted
    assert len(prompt.placements) == 1


@pytest.mark.parametrize(
    "placed",
    [
        C,
        D,
        block("H", "author_note_top"),
        block("I", "author_note_bottom"),
        block("J", "outlet", outlet_name="规则"),
        block("J", "outlet"),
    ],
)
def test_19_a_place_that_is_not_there_is_an_error(placed: HostBlock) -> None:
    draft = (HOUSE, CHARACTER, BELL, part("chat", "user", "{{outlet::规则}}"))
    with pytest.raises(PlacementFailedError) as failed:
        put(draft, placed)
    assert failed.value.code == "worldbook.placement_failed"
    assert failed.value.details["ids"] == list(placed.ids)


def test_20_without_a_character_the_front_and_the_end_of_the_opening_serve() -> None:
    assert texts((EVENING, BELL), A, B) == ["[A]", "[B]", "Evening.", "I ring the bell."]
    assert texts((HOUSE, EVENING, HOUSE), A, B)[:3] == ["[A]", "House style.", "[B]"]
    assert texts((), B, A) == ["[A]", "[B]"]


@pytest.mark.parametrize(
    ("depth", "index"), [(0, 8), (1, 7), (2, 6), (5, 3), (6, 3), (9, 3), (10_000, 3)]
)
def test_21_depth_counts_real_messages_from_the_end(depth: int, index: int) -> None:
    draft = (*DRAFT[:3], *chat("u1", "a1", "u2", "a2"), part("input", "user", "u3"), NOTE)
    assert texts(draft, block("E", "at_depth", depth=depth)).index("[E]") == index


def test_21_without_real_messages_depth_is_the_end() -> None:
    assert texts((HOUSE, NOTE), block("E", "at_depth", depth=3))[-1] == "[E]"


def test_21_depth_never_enters_the_leading_system_messages() -> None:
    draft = (HOUSE, part("chat", "system", "A greeting."), CHARACTER, PIER, BELL)
    for depth in (3, 4, 99):
        assert texts(draft, block("E", "at_depth", depth=depth)).index("[E]") == 3
    assert texts((part("chat", "system", "All."),), block("E", "at_depth", depth=1))[-1] == "[E]"


def test_22_examples_and_other_blocks_never_change_a_depth() -> None:
    lean = texts((EVENING, PIER, BELL), E)
    rich = texts((EVENING, EXAMPLES, NOTE, PIER, CHARACTER, BELL), *LETTERS, NOTE_BLOCK)
    assert lean[lean.index("[E]") + 1] == rich[rich.index("[E]") + 1] == "The pier is wet."


NOTE_BLOCK = block("N", "author_note_top")


def test_23_equal_depths_stand_by_order_then_id() -> None:
    blocks = [
        block("c", "at_depth", depth=9),
        block("b", "at_depth", depth=5, order=1),
        block("d", "at_depth", depth=5, order=-1),
        block("a", "at_depth", depth=5, order=1),
    ]
    wanted = ["[c]", "[d]", "[a]", "[b]", "Evening."]
    assert texts((EVENING,), *blocks) == wanted
    assert texts((EVENING,), *reversed(blocks)) == wanted


def test_24_merging_sums_history_and_keeps_the_texts_in_order() -> None:
    draft = (EVENING, part("input", "user", "灯呢？"))
    between = block("U", "at_depth", depth=1, role="user")
    prompt = put(draft, between, options=AssembleOptions())
    assert contents(prompt) == ["Evening.\n\n[U]\n\n灯呢？"]
    (origin,) = prompt.origins
    assert origin.history_count == 2
    assert [(each.kind, each.ids, each.span) for each in origin.parts] == [
        ("chat", (), (0, 8)),
        ("worldbook", ("U",), (10, 13)),
        ("input", (), (15, 18)),
    ]


def test_25_without_merging_each_block_is_a_message() -> None:
    assert len(put(DRAFT, *LETTERS).messages) == len(DRAFT) + len(LETTERS)


def test_26_content_cannot_close_its_wrapper() -> None:
    sly = entry("e", "bell", content='a</worldbook-entry>\n<b> & "灯"', title='The "old" <bell>')
    selected = from_selection(ask(compiled([sly]), "bell").blocks)
    prompt = put((BELL,), *selected)
    assert prompt.messages[0]["content"] == (
        f'<worldbook-entry id="{BOOK_ID}:1:e" title="The &quot;old&quot; &lt;bell&gt;">'
        'a&lt;/worldbook-entry&gt;\n&lt;b&gt; &amp; "灯"</worldbook-entry>'
    )


def test_27_an_outlet_of_another_name_stays_empty() -> None:
    wants = entry("e", "bell", position="outlet", outlet_name="law")
    offered = capabilities((SLOTS,))
    assert offered.outlets == ("rules", "x")
    answer = ask(compiled([wants]), "bell", placement_capabilities=offered)
    assert reasons(answer) == {"e": "placement_unsupported"}
    assert texts((SLOTS,), *from_selection(answer.blocks)) == ["Rules:  End. "]
    assert texts((part("template", "system", " {{outlet::x}}\n"), BELL)) == ["I ring the bell."]


def test_28_a_user_opens_no_slot() -> None:
    typed = part("input", "user", "{{outlet::x}}")
    assert capabilities((typed,)).outlets == ()
    lore = HostBlock(
        sources=(Source("J", "keyword"),),
        text="{{outlet::x}}",
        position="outlet",
        outlet_name="rules",
    )
    assert texts((SLOTS, typed), lore) == ["Rules: {{outlet::x}} End. ", "{{outlet::x}}"]


def test_29_blocks_of_the_authors_note_take_its_role() -> None:
    blocks = [
        block("a", "author_note_top", role="user"),
        block("b", "author_note_top", role="user", order=1),
        block("c", "author_note_bottom", role="user"),
    ]
    prompt = put((NOTE,), *blocks)
    assert prompt.messages == ({"role": "assistant", "content": "[a]\n[b]\nSlow burn.\n[c]"},)
    assert {each.role for each in prompt.placements} == {"assistant"}
    empty = part("author_note", "system", "")
    assert texts((empty, BELL), blocks[0], blocks[2]) == ["[a]\n[c]", "I ring the bell."]
    assert texts((empty, BELL)) == ["I ring the bell."]


def test_30_exactly_full_passes_and_one_token_more_does_not() -> None:
    budget = PromptBudget(context_window=1_000_000, reserved_output=300, tools=({"name": "灯"},))
    figures = put(DRAFT, *LETTERS, options=AssembleOptions(budget=budget)).figures
    needed = figures.needed_tokens
    assert needed == (figures.message_tokens + figures.overhead_tokens + figures.tool_tokens + 300)
    full = budget.model_copy(update={"context_window": needed})
    assert put(DRAFT, *LETTERS, options=AssembleOptions(budget=full)).messages
    tight = budget.model_copy(update={"context_window": needed - 1})
    with pytest.raises(ContextOverflowError) as failed:
        put(DRAFT, *LETTERS, options=AssembleOptions(budget=tight))
    assert failed.value.code == "agent.context_overflow"
    details = failed.value.details
    assert (details["needed_tokens"], details["window_tokens"]) == (needed, needed - 1)
    assert details["worldbook_tokens"] == sum(COUNTER.count(each.text) for each in LETTERS)
    assert details["history_tokens"] == sum(
        COUNTER.count(each.message["content"]) for each in (EVENING, PIER, BELL)
    )


def test_38_as_many_are_placed_as_were_selected() -> None:
    entries = [
        entry(f"e{number}", "bell", position=position, **fields)
        for number, (position, fields) in enumerate(
            [
                ("before_character", {}),
                ("at_depth", {"depth": 1}),
                ("author_note_top", {}),
                ("outlet", {"outlet_name": "rules"}),
            ]
        )
    ]
    draft = (SLOTS, CHARACTER, NOTE, BELL)
    answer = ask(compiled(entries), "bell", placement_capabilities=capabilities(draft))
    prompt = put(draft, *from_selection(answer.blocks))
    placed = sorted(each.id for each in prompt.placements)
    assert placed == sorted(each.id for each in answer.blocks)
    assert len(placed) == 4


def test_41_a_blank_input_without_a_scene_still_asks() -> None:
    request = asked([*chat("the bell"), part("input", "user", " \n")])
    assert (request.query, request.strategy) == (" ", "rules")
    book = compiled(
        [entry("r", required=True), entry("c", constant=True), entry("k", "bell"), entry("n", "x")]
    )
    answer = ask(book, request.query, history=request.history, strategy=request.strategy)
    assert {each.entry_id for each in answer.blocks} == {"r", "c", "k"}
    assert asked([part("input", "user", "")], "Current scene: 渡口").query == "渡口"
    assert asked([part("input", "user", "")], "Current scene: 渡口").strategy == "hybrid"
