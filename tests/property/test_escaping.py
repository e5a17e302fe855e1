"""No text breaks out of its wrapper: the context reads back as exactly its blocks."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from hypothesis import given, strategies as st

from lorewell import SelectResponse
from property.strategies import ANY_TEXT, HOSTILE
from support import Document, ask, compiled

TEXT = r"(?:[^&<>]|&(?:amp|lt|gt);)*"
ATTRIBUTE = r'(?:[^&<>"\n\r\t]|&(?:amp|lt|gt|quot|#10|#13|#9);)*'
WRAPPED = re.compile(
    rf'<worldbook-entry id="({ATTRIBUTE})" title="({ATTRIBUTE})">\n({TEXT})\n</worldbook-entry>'
)
CHARACTERS = {
    "&lt;": "<",
    "&gt;": ">",
    "&quot;": '"',
    "&#10;": "\n",
    "&#13;": "\r",
    "&#9;": "\t",
    "&amp;": "&",
}


def unescape(text: str) -> str:
    """Undo the escapes in one pass."""
    return re.sub("|".join(CHARACTERS), lambda found: CHARACTERS[found.group()], text)


def read_back(context: str) -> list[tuple[str, ...]]:
    """Parse a context by the grammar of docs/rules/native.md §8.9 alone; the rest is an error."""
    blocks: list[tuple[str, ...]] = []
    at = 0
    while at < len(context):
        if blocks:
            assert context.startswith("\n\n", at)
            at += 2
        found = WRAPPED.match(context, at)
        assert found is not None
        blocks.append(tuple(map(unescape, found.groups())))
        at = found.end()
    return blocks


def shown(entries: list[Document]) -> SelectResponse:
    return ask(compiled(entries), "now", token_budget=32_000, constant_budget_ratio=1)


@st.composite
def hostile_entries(draw: st.DrawFn) -> list[Document]:
    texts = draw(st.lists(st.tuples(HOSTILE | ANY_TEXT, HOSTILE | ANY_TEXT), max_size=5))
    names = st.text(st.sampled_from("<>&\"'a灯;#"), min_size=1, max_size=8)
    ids = draw(st.lists(names, min_size=len(texts), max_size=len(texts), unique=True))
    return [
        {"id": name, "title": title, "content": content, "constant": True}
        for name, (title, content) in zip(ids, texts, strict=True)
    ]


@given(hostile_entries())
def test_context_reads_back_as_its_blocks(entries: list[Document]) -> None:
    response = shown(entries)
    told = [(block.id, block.title, block.content) for block in response.blocks]
    assert read_back(response.context) == told


@given(st.lists(st.tuples(HOSTILE, HOSTILE), max_size=5))
def test_context_is_well_formed_xml(texts: list[tuple[str, str]]) -> None:
    """An XML parser sees the same elements, but for its own reading of line ends."""
    response = shown(
        [
            {"id": f"e{index}", "title": title, "content": content, "constant": True}
            for index, (title, content) in enumerate(texts)
        ]
    )
    root = ET.fromstring(f"<all>{response.context}</all>")  # noqa: S314  our own output
    assert [each.get("id") for each in root] == [block.id for block in response.blocks]
    assert [each.get("title") for each in root] == [block.title for block in response.blocks]
    for element, block in zip(root, response.blocks, strict=True):
        expected = f"\n{block.content}\n".replace("\r\n", "\n").replace("\r", "\n")
        assert element.text == expected
        assert list(element) == []
