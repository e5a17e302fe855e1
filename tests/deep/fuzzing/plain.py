"""Plain text: JSON in its encodings and with its slips, and YAML."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

import yaml

from deep.fuzzing.documents import CARD_DOCUMENTS, DOCUMENTS, as_bytes
from deep.fuzzing.json_mutator import OnBytes, card_payload, mutate_json
from lorewell.formats.detect import FileKind

_SNIPPETS: Final = (
    *("//x\n", "/*", "*/", "/* 灯 */", ",", ",]", "},", '"', "\\", "\\u0000", "\\ud83c", "\\u"),
    *("\x00", "\x01", "\n", "\r", "\u2028", "\ufeff", "NaN", "1e999", "<html>", "{", "["),
    "[" * 101,
)
_YAML_SNIPPETS: Final = (
    *("&a ", "*a", "<<: *a\n", "!!python/object:os.system ", "!!binary ", "!x!y ", "%TAG ! x\n"),
    *("- ", "\n- ", ": ", "? ", "\n? ", "|\n", ">+9\n", "|-\n ", "\t", "---\n", "...\n", "%YAML 9"),
    *("0o7", "0x10", "1_0", "2020-01-01", ".inf", "-.NaN", "1:30", "on", "~", "=", "<<", "'", '"'),
    *("[", "]", "{", "}", ",", "\\x", '"\\U0011FFFF"', '"\\ud800"', "\x00", "\x85", "\u2028"),
    *("1e999", "9" * 40, "9" * 4301, "[" * 101, "- " * 101, "{a: " * 101, "# x\n", " #", "\r"),
)


def json_seeds() -> Iterator[bytes]:
    """Yield JSON in several encodings, JSON that has to be mended, and what is none."""
    text = as_bytes(DOCUMENTS[FileKind.ST_WORLD][0]).decode()
    yield codecs.BOM_UTF8 + text.encode()
    yield codecs.BOM_UTF16_LE + text.encode("utf-16-le")
    yield codecs.BOM_UTF16_BE + text.encode("utf-16-be")
    yield '/* 灯 */ {"entries": {"1": {"key": ["\\u0000", "\\ud800"],}, "1": {}},} // end'.encode()
    yield '{"entries": [{"keys": ["a\nb"], "id": 1e999, "content": "лампа"}]}'.encode()
    yield b"<!doctype html>"
    yield "# 名: no JSON".encode()


def mutate_text(data: bytes, max_size: int, chance: Random, on_bytes: OnBytes) -> bytes:
    """Return a text with a comment, a comma, an escape or the like more, or in another encoding."""
    action = chance.randrange(10)
    if action < 3:
        return on_bytes(data, max_size)
    if action < 5:
        return mutate_json(data, max_size, chance, on_bytes)
    if action == 5:
        mark, encoding = chance.choice(
            ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
        )
        return (mark + data.decode("utf-8", "ignore").encode(encoding))[:max_size]
    return _with_snippets(data, _SNIPPETS, chance)[:max_size]


def _with_snippets(data: bytes, snippets: Sequence[str], chance: Random) -> bytes:
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        data = data[:at] + chance.choice(snippets).encode() + data[at:]
    return data


def yaml_seeds() -> Iterator[bytes]:
    """Yield cards as YAML, and what no JSON can say."""
    yield """# 名
name: Oda
context: >-
  Oda's Persona: 船員,
  ผู้นำร่อง
greeting: |
  hei
order: [1, 0x1F, 1e3, ~, yes, 2020-01-01]
""".encode()
    yield b'char_name: &a "\\u706f"\nchar_persona: *a\n<<: {x: !!str 1, y: .inf}\n'
    for document in CARD_DOCUMENTS:
        yield yaml.safe_dump(document, allow_unicode=True, sort_keys=False).encode()


def mutate_yaml(data: bytes, max_size: int, chance: Random, on_bytes: OnBytes) -> bytes:
    """Return a YAML text with other bytes or signs in it, or one that holds a changed card."""
    action = chance.randrange(10)
    if action < 3:
        return on_bytes(data, max_size)
    if action < 6:
        try:
            document = json.loads(card_payload(chance, on_bytes), strict=False)
            style = chance.choice((None, True, False))
            text = yaml.safe_dump(document, allow_unicode=True, default_flow_style=style)
        except (ValueError, RecursionError):
            return on_bytes(data, max_size)
        return text.encode("utf-8", "replace")[:max_size]
    return _with_snippets(data, _YAML_SNIPPETS, chance)[:max_size]
