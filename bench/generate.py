"""Generates books and chats of any size, with invented words, planted hits and near misses.

Keys and running text use disjoint vocabularies, so that only planted keys match. The same seed
gives the same book on every machine.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from random import Random

SYLLABLES = (  # noqa: SIM905  words, not a table
    "bel cha dra eth fen gos ild ka kae lin mi mur nim ock pha qui ro sul ten thu thro ush var wen"
).split()
RARE_HAN = "凛岐岫崮栎桫椤楹榉槭橼沅泮渌湫澧玦珞璎缨芪芷苓茝菡萏薇藿蘅邺郢鄢酆霆靐飑鸢鹄鹞麓龘"
WORDS = (  # noqa: SIM905  the same
    "a and are as at be boat bread bright but by carry chair close coat coin cold cup dark"
    " day door eye fall field find fire follow for forget from give hall hand her hill his"
    " hold horse in into is it its keep large laugh leave letter light listen lose loud near"
    " new night not of old on open out over quick quiet rain remember rise road room rope run"
    " salt see sit slow small snow so speak stand stone table take the then they to town tree"
    " turn under wait walk warm was"
).split()
HAN = (
    "光门过窗那雪热这桌面了的听他手下上石忘后信快风绳夜旧大眼新走跑我天路们她钱在外声水火想"
    "中看镇来衣里船冷去田屋慢记坐树前雨马等左右开杯你站山盐椅关说小着"
)
ORDERS = (50, 100, 100, 100, 150, 200)
NAMES = ("Mira", "旅人")

OWN_LANGUAGE = 0.85  # of an entry's keys
SECOND_WORD = 0.2  # of the English keys
PUNCTUATED = 0.15  # of the words, and of the characters
SHARES = (0.008, 0.002, 0.008)  # of the entries: hits in the chat, by recursion, near misses
CONTENT_WORDS, CONTENT_HAN = 88, 75
MESSAGE_WORDS, MESSAGE_HAN = 150, 225
MESSAGES, SCANNED = 20, 4
CHINESE_EVERY = 3  # messages


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEntry:
    """An entry of a bench book, as its file lists it."""

    uid: int
    key: tuple[str, ...]
    content: str
    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A book with a chat.

    Attributes:
        entries: in stored order.
        chat: messages, newest first.
        depth: number of messages that are scanned.
        expected: uids of the entries that the chat activates.
    """

    entries: tuple[RawEntry, ...]
    chat: tuple[str, ...]
    depth: int
    expected: frozenset[int]


class Writer:
    """Draws keys, texts and entries; keys are unique and never occur in the forbidden text."""

    def __init__(self, seed: int, *, taken: Collection[str] = (), forbidden: str = "") -> None:
        """Start at a seed. Keys in `taken` or in the `forbidden` text are not drawn."""
        self.random = Random(seed)
        self._taken = set(taken)
        self.forbidden = forbidden

    def key(self, *, chinese: bool, words: int | None = None) -> str:
        """Return a new key; `words` sets the number of words of an English key."""
        while True:
            key = self._han_key() if chinese else self._english_key(words)
            if key not in self._taken and key not in self.forbidden:
                self._taken.add(key)
                return key

    def pieces(self, *, chinese: bool, size: int) -> list[str]:
        """Return a text of `size` words or characters, split where a word can be inserted."""
        marks, gap = ("，。", "") if chinese else (",.", " ")
        return [
            piece + (self.random.choice(marks) if self.random.random() < PUNCTUATED else "") + gap
            for piece in self.random.choices(HAN if chinese else WORDS, k=size)
        ]

    def entry(self, uid: int) -> RawEntry:
        """Return an entry with 3 to 5 keys."""
        chinese = self.random.random() < 0.5  # noqa: PLR2004  an even chance
        keys = [
            self.key(chinese=chinese == (self.random.random() < OWN_LANGUAGE))
            for _ in range(self.random.randint(3, 5))
        ]
        size = CONTENT_HAN if chinese else CONTENT_WORDS
        content = "".join(self.pieces(chinese=chinese, size=size)).strip()
        order = self.random.choice(ORDERS)
        return RawEntry(uid=uid, key=tuple(keys), content=content, order=order)

    def message(self, number: int) -> list[str]:
        """Return the pieces of a message; numbers count from the newest one."""
        chinese = number % CHINESE_EVERY == CHINESE_EVERY - 1
        size = MESSAGE_HAN if chinese else MESSAGE_WORDS
        return self.pieces(chinese=chinese, size=size)

    def _english_key(self, words: int | None) -> str:
        wanted = words or (2 if self.random.random() < SECOND_WORD else 1)
        sizes = [self.random.randint(3, 4), *[2] * (wanted - 1)]
        return " ".join("".join(self.random.choices(SYLLABLES, k=size)) for size in sizes)

    def _han_key(self) -> str:
        return "".join(self.random.choices(RARE_HAN, k=self.random.randint(3, 4)))


def generate(size: int, seed: int = 42) -> Case:
    """Return a book of `size` entries and a chat of 20 messages, of which 4 are scanned."""
    writer = Writer(seed)
    entries = [writer.entry(uid) for uid in range(size)]
    messages = [writer.message(number) for number in range(MESSAGES)]
    direct, recursion, near = (max(1, round(size * share)) for share in SHARES)
    chosen = writer.random.sample(range(size), direct + recursion + near)
    said, woken, missed = chosen[:direct], chosen[direct : direct + recursion], chosen[-near:]
    for uid in said:
        _plant(messages, writer, entries[uid].key[0])
    for uid in woken:
        waker = writer.random.choice(said)
        content = f"{entries[waker].content} {entries[uid].key[0]} "
        entries[waker] = replace(entries[waker], content=content)
    _keep_apart(writer, entries, said + woken, "\n".join(map("".join, messages[:SCANNED])))
    for uid in missed:  # a word that only starts with the key
        key = writer.key(chinese=False, words=1)
        entries[uid] = replace(entries[uid], key=(key, *entries[uid].key[1:]))
        _plant(messages, writer, f"{key}x")
    chat = [f"{NAMES[number % 2]}: {''.join(message)}" for number, message in enumerate(messages)]
    return Case(
        entries=tuple(entries), chat=tuple(chat), depth=SCANNED, expected=frozenset(said + woken)
    )


def fill(case: Case, size: int, seed: int = 43) -> Case:
    """Return the case filled up to `size` with entries that the chat can't activate."""
    active = [entry.content for entry in case.entries if entry.uid in case.expected]
    taken = {key for entry in case.entries for key in entry.key}
    text = "\n".join([*case.chat[: case.depth], *active]).lower()
    writer = Writer(seed, taken=taken, forbidden=text)
    first = 1 + max(entry.uid for entry in case.entries)
    added = [writer.entry(uid) for uid in range(first, first + size - len(case.entries))]
    return replace(case, entries=(*case.entries, *added))


def _plant(messages: list[list[str]], writer: Writer, word: str) -> None:
    """Insert a word, with spaces around it, at a random place in one of the scanned messages."""
    message = messages[writer.random.randrange(SCANNED)]
    message.insert(writer.random.randrange(len(message)), f" {word} ")


def _keep_apart(
    writer: Writer, entries: list[RawEntry], planted: Sequence[int], scanned: str
) -> None:
    """Replace keys that match although they were not planted."""
    text = "\n".join([scanned, *(entries[uid].content for uid in planted)])
    writer.forbidden = text
    first_is_planted = set(planted)
    for uid in range(len(entries)):
        keys = list(entries[uid].key)
        for place in range(1 if uid in first_is_planted else 0, len(keys)):
            if keys[place] in text:
                keys[place] = writer.key(chinese=not keys[place].isascii())
        entries[uid] = replace(entries[uid], key=tuple(keys))
