"""The positions of the policy `replica` in a host's draft stand as in that program's own prompt."""

from __future__ import annotations

from lorewell.engine.replica.assemble import ReplicaDraft, ReplicaMessage, assemble as as_there
from lorewell.engine.tokens import counter
from lorewell.host import AssembleOptions, DraftMessage, assemble, from_replica
from replica_books import constant, keyed, turn

CHARACTER, EXAMPLES = "哑女。", "样例。"
HISTORY = [ReplicaMessage("user", "一"), ReplicaMessage("assistant", "二")]
DRAFT = [
    DraftMessage(kind="character", message={"role": "system", "content": CHARACTER}),
    DraftMessage(kind="examples", message={"role": "system", "content": EXAMPLES}),
    *(
        DraftMessage(kind="chat", message={"role": each.role, "content": each.content})
        for each in HISTORY
    ),
    DraftMessage(kind="input", message={"role": "user", "content": "三"}),
]


def test_texts_stand_in_the_order_of_that_program() -> None:
    entries = [
        *(constant(f"p{number}", position=number) for number in range(6)),
        constant("deep0", position=6, depth=0, role=2),
        constant("deep1", position=6, depth=1, role=1),
        constant("deep9", position=6, depth=9),
        constant("note2", position=4, order=1),
        constant("front", position=5, order=1),
    ]
    active = turn(entries, "三").entries
    draft = ReplicaDraft(character=CHARACTER, examples=EXAMPLES, history=HISTORY, mes="三")
    there = "\n".join(message.content for message in as_there(draft, active).messages)
    blocks = from_replica(active)
    options = AssembleOptions(merge_adjacent=False)
    here = assemble(DRAFT, blocks, options, counter=counter())
    said = [str(message["content"]) for message in here.messages]
    assert "\n".join(said) == there
    assert {block.lasting for block in blocks} == {"constant"}
    roles = {str(message["content"]): message["role"] for message in here.messages}
    assert (roles["C-deep0"], roles["C-deep1"], roles["C-p4"]) == ("assistant", "user", "system")


def test_a_macro_fills_its_outlet_and_appears_nowhere_without_one() -> None:
    active = turn([constant("lamp", position=7), keyed("none", "三", position=7)], "三").entries
    marked = [
        DraftMessage(kind="character", message={"role": "system", "content": "[{{outlet::lamp}}]"}),
        *DRAFT[1:],
    ]
    prompt = assemble(marked, from_replica(active), AssembleOptions(), counter=counter())
    assert "[C-lamp]" in str(prompt.messages[0]["content"])
    assert "C-none" not in str(prompt.messages)


def test_without_a_character_or_examples_nothing_is_lost() -> None:
    active = turn([constant(f"p{number}", position=number) for number in range(7)], "三").entries
    options = AssembleOptions(merge_adjacent=False)
    prompt = assemble(DRAFT[-1:], from_replica(active), options, counter=counter())
    said = [str(message["content"]) for message in prompt.messages]
    assert sorted(said) == sorted(["三", *(f"C-p{number}" for number in range(7))])
