"""Finds suspicious parts of an entry's texts, to review before a model reads them.

Source: docs/rules/native.md §11.5 for dynamic content; the rest are known attacks by card texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from ahocorasick_rs import AhoCorasick

from lorewell.engine.matching.keys import split_regex
from lorewell.engine.sillytavern.entry import ImportedEntry, lowered_alike
from lorewell.engine.sillytavern.entry.dynamic import Texts
from lorewell.engine.steps import Steps
from lorewell.jsregex.cost import costly
from lorewell.model.entry import MAX_CONTENT_CHARS, MAX_KEY_CHARS, MAX_KEYS
from lorewell.model.imports import Suspicion

MAX_CHARS: Final = MAX_CONTENT_CHARS  # of a text that are searched
_MAX_SPANS: Final = 100  # of a kind in one text; also costly keys of an entry
_CHARS_A_STEP: Final = 20
_KEY_CHARS_A_STEP: Final = 1_000  # when a text is searched for a key
_WINDOW_CHARS: Final = 80
_SHORTEST: Final = 6  # links and phrases are at least as long
_SENTENCE_END: Final = re.compile(r"[.!?\n。！？]")
_LINKS: Final = (
    *("http://", "https://", "ftp://", "ws://", "wss://", "file://", "www.", "mailto:"),
    *("data:text/", "data:image/", "data:application/"),
)
_LINK: Final = re.compile(
    r"""[^\s<>"'`\\^{|}()\[\]，。；、“”‘’「」【】（）\u200b-\u200f\u202a-\u202e\u2066-\u2069]{3,}"""
)
# Special tokens of prompt formats.
_TOKENS: Final = (
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|start_header_id|>"),
    *("<|system|>", "<|user|>", "<|assistant|>", "[inst]", "[/inst]", "<<sys>>", "<</sys>>"),
)
# Words that open a phrase, and two groups of words: one of each must follow in the sentence.
_PHRASES: Final[Sequence[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]] = (
    (
        ("ignore ", "disregard ", "forget ", "override ", "bypass "),
        ("previous", "prior", "above", "earlier", "preceding", "all ", "any ", "your ", "system"),
        ("instruction", "prompt", "rule", "guideline", "direction", "restriction", "polic"),
    ),
    (("reveal ", "print ", "repeat ", "output "), ("system", "hidden", "initial"), ("prompt",)),
    (
        (
            "忽略",
            "无视",
            "無視",
            "忽視",
            "忘记",
            "忘記",
            "忘掉",
            "不要遵守",
            "不再遵守",
            "绕过",
            "繞過",
        ),
        (
            "以上",
            "上述",
            "之前",
            "先前",
            "前面",
            "所有",
            "全部",
            "一切",
            "系统",
            "系統",
            "原有",
            "任何",
        ),
        ("指令", "提示", "规则", "規則", "设定", "設定", "限制", "要求", "命令"),
    ),
    (
        ("以前の", "これまでの", "上記の", "前述の", "今までの", "すべての", "全ての"),
        ("指示", "命令", "ルール", "プロンプト", "制約"),
        ("無視", "忘れ"),
    ),
    (("이전", "위의", "앞의", "모든"), ("지시", "명령", "규칙", "프롬프트"), ("무시", "잊")),
    (
        ("игнорируй", "проигнорируй", "забудь", "не обращай внимания"),
        ("предыдущ", "прошл", "прежн", "все", "системн"),
        ("инструкц", "указани", "правил", "промпт"),
    ),
    (
        ("ignora ", "ignorez ", "oublie", "olvida ", "ignoriere ", "vergiss ", "esqueça "),
        ("anterior", "précédent", "vorherig", "bisherig", "precedent", "todas", "toutes", "alle"),
        ("instruc", "instruk", "anweisung", "regel", "règle", "regla", "consigne", "istruzion"),
    ),
    (
        ("bỏ qua", "phớt lờ"),
        ("trước", "tất cả", "mọi"),
        ("hướng dẫn", "chỉ thị", "lệnh", "quy tắc"),
    ),
    (("ไม่ต้องสนใจ", "เพิกเฉย", "ละเว้น"), ("ก่อนหน้า", "ทั้งหมด", "ข้างต้น"), ("คำสั่ง", "กฎ")),
)
_OPENERS: Final = {opener: phrase for phrase in _PHRASES for opener in phrase[0]}
_WORDS: Final = (*_LINKS, *_TOKENS, *_OPENERS)
_FINDER: Final = AhoCorasick(_WORDS)
# Controls, soft hyphens, fillers, zero widths. Joiners, tags and selectors have their own rules.
_HIDDEN_SET: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b"
    "\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a"
)
_JOINER_SET: Final = "\u200c\u200d"
_TAG_SET: Final = "\U000e0000-\U000e007f"
_SELECTOR_SET: Final = "\U000e0100-\U000e01ef"
_BIDI_SET: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HIDDEN: Final = re.compile(f"[{_HIDDEN_SET}]+")
_JOINERS: Final = re.compile(f"[{_JOINER_SET}]+")
_TAGS: Final = re.compile(f"[{_TAG_SET}]+")
_SELECTORS: Final = re.compile(f"[{_SELECTOR_SET}]+")
_BIDI: Final = re.compile(f"[{_BIDI_SET}]+")
# A quick test for any of these: most texts have none.
_UNSEEN: Final = re.compile(f"[{_HIDDEN_SET}{_JOINER_SET}{_TAG_SET}{_SELECTOR_SET}{_BIDI_SET}]")
# Scripts that join letters, and emoji, which join pictures.
_JOINING: Final = re.compile(
    "[\u0590-\u109f\u1780-\u17ff\u1800-\u18aa\ua840-\ua877\ufb1d-\ufeff\ufe0f\u2190-\u2bff"
    "\U0001f000-\U0001faff\U000e0020-\U000e007f]"
)
_FLAG: Final = "\U0001f3f4"  # the flag of a region is a black flag and tags
_HAN: Final = re.compile("[\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")

Span = tuple[int, int]


class SuspectSpan(NamedTuple):
    """A suspicious part of an entry's text.

    Attributes:
        what: kind of the finding.
        pointer: JSON pointer to the text, from the entry.
        span: half-open, in code points of the text.
        text: the whole text.
    """

    what: Suspicion
    pointer: str
    span: Span
    text: str


def find_suspects(imported: ImportedEntry, steps: Steps) -> Iterator[SuspectSpan]:
    """Yield the suspicious parts of an entry: text by text, in the order of the kinds.

    Of each text the first 200,000 characters are searched, and at most 100 parts of a kind are
    found; also at most 100 expensive regex keys of the entry.

    Args:
        imported: the entry, with its texts and the signs of dynamic content in them.
        steps: counts the work.
    """
    if len(imported.entry["content"]) > MAX_CHARS:  # the model refuses the entry
        return
    for sign in imported.signs:
        if sign.span is not None:
            what: Any = sign.requirement  # signs with a span are all of kinds that quarantine has
            yield SuspectSpan(what, sign.pointer, sign.span, sign.text)
    for at, text in imported.texts:
        if len(text) >= _SHORTEST or not (text.isascii() and text.isprintable()):
            steps.spend("quarantine", 6 + min(len(text), MAX_CHARS) // _CHARS_A_STEP)
            for found, span in _in_text(text[:MAX_CHARS]):
                yield SuspectSpan(found, at.pointer(), span, text)
    yield from islice(_costly_keys(imported, steps), _MAX_SPANS)


def _costly_keys(imported: ImportedEntry, steps: Steps) -> Iterator[SuspectSpan]:
    entry = imported.entry
    keys = (*entry.get("keys", ())[:MAX_KEYS], *entry.get("secondary_keys", ())[:MAX_KEYS])
    for key in dict.fromkeys(keys):
        if not key.startswith("/") or len(key) > MAX_KEY_CHARS:
            continue
        steps.spend("regex", 1 + len(key))
        regex = split_regex(key)
        if regex is None or costly(regex[0]) is None:
            continue
        yield from islice(_texts_with(key, imported.texts, steps), 1)


def _texts_with(key: str, texts: Texts, steps: Steps) -> Iterator[SuspectSpan]:
    for at, text in texts:
        steps.spend("regex", 1 + len(text) // _KEY_CHARS_A_STEP)
        start = text.find(key)
        if start >= 0:
            yield SuspectSpan("expensive_regex", at.pointer(), (start, start + len(key)), text)


def _in_text(text: str) -> Iterator[tuple[Suspicion, Span]]:
    lowered = lowered_alike(text)
    words = [
        (_WORDS[word], start, end) for word, start, end in _FINDER.find_matches_as_indexes(lowered)
    ]
    yield from (("link", span) for span in islice(_links(lowered, words), _MAX_SPANS))
    yield from (("prompt_override", span) for span in islice(_phrases(lowered, words), _MAX_SPANS))
    if _UNSEEN.search(text):
        hidden = islice(_hidden(text), _MAX_SPANS)
        yield from (("hidden_characters", span) for span in hidden)
        for found in islice(_BIDI.finditer(text), _MAX_SPANS):
            yield "bidirectional", found.span()


def _links(lowered: str, words: Sequence[tuple[str, int, int]]) -> Iterator[Span]:
    last = 0
    for word, start, end in words:
        if word in _LINKS and start >= last:
            rest = _LINK.match(lowered, end)
            if rest is not None:
                last = rest.end()
                yield start, last


def _phrases(lowered: str, words: Sequence[tuple[str, int, int]]) -> Iterator[Span]:
    openers = ((word, start, end) for word, start, end in words if word not in _LINKS)
    for word, start, end in islice(openers, _MAX_SPANS):
        if word in _TOKENS:
            yield start, end
            continue
        stop = _SENTENCE_END.search(lowered, end, end + _WINDOW_CHARS)
        window = lowered[end : stop.start() if stop else end + _WINDOW_CHARS]
        _, *wanted = _OPENERS[word]
        ends = [_first_end(window, words) for words in wanted]
        if all(ends):
            yield start, end + max(ends)


def _first_end(window: str, words: Sequence[str]) -> int:
    """Return the end of the first of the words in the window; 0 if it has none."""
    found = [(at, at + len(word)) for word in words if (at := window.find(word)) >= 0]
    return min(found)[1] if found else 0


def _hidden(text: str) -> Iterator[Span]:
    for found in _HIDDEN.finditer(text):
        if not (found.start() == 0 and found[0] == "\ufeff"):
            yield found.span()
    for found in _JOINERS.finditer(text):
        around = (
            text[max(found.start() - 1, 0) : found.start()] + text[found.end() : found.end() + 1]
        )
        if not _JOINING.search(around):
            yield found.span()
    for found in _TAGS.finditer(text):
        if text[found.start() - 1 : found.start()] != _FLAG:
            yield found.span()
    for found in _SELECTORS.finditer(text):
        if not _HAN.match(text[found.start() - 1 : found.start()]) or len(found[0]) > 1:
            yield found.span()
