"""Chat files: any bytes give a chat or an error of ours, and what was written is read."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, strategies as st

from lorewell import SillyTavernRequest
from lorewell.errors import LorewellError
from lorewell.formats.chat_file import ChatFile, load_chat
from lorewell.model.parse import parse_model

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("user_name", "character_name", "chat_metadata", "name", "is_user", "is_system", "mes")
OBJECTS = st.dictionaries(st.sampled_from(NAMES) | st.text(), JSON | st.text(), max_size=6)
LINES = st.binary(max_size=20) | OBJECTS.map(lambda line: json.dumps(line).encode())
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
MESSAGES = st.tuples(TEXTS, TEXTS, st.booleans(), st.booleans())


def load(data: bytes) -> ChatFile:
    with TemporaryDirectory() as folder:
        path = Path(folder, "chat.jsonl")
        path.write_bytes(data)
        return load_chat(path)


@given(st.lists(LINES, max_size=6), st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
def test_any_file_is_a_chat_or_refused(lines: list[bytes], joint: bytes) -> None:
    try:
        chat = load(joint.join(lines))
    except LorewellError:
        return
    said = [{"name": each.name or None, "content": each.content} for each in chat.messages]
    document = {"chat": said, "timed_state": {}, "macros": {"user": chat.user, "char": chat.char}}
    parse_model(SillyTavernRequest, {**document, "context_tokens": 1})


@given(st.lists(MESSAGES, max_size=8))
def test_what_was_written_is_read(messages: list[tuple[str, str, bool, bool]]) -> None:
    lines: list[object] = [{"user_name": "旅人", "chat_metadata": {}}]
    lines += [
        {"name": name, "mes": text, "is_user": is_user, "is_system": hidden}
        for name, text, is_user, hidden in messages
    ]
    chat = load("\n".join(map(json.dumps, lines)).encode())
    told = [(each.name, each.content, each.is_user) for each in chat.messages]
    assert told == [each[:3] for each in messages if not each[3]]
    assert chat.hidden == sum(each[3] for each in messages)
