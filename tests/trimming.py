"""Two clients of one chat: one sends everything, the other drops old messages.

A chat is changed at random, as people do it: they send, swipe, edit, delete, branch and come back.
Both clients send it after each change, and every turn must activate the same entries for both.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

USER, CHAR = "Ann", "Mira"
LEAST = 3  # known lines that the trimming client still sends
MOST = 9
WORDS = (
    *("lamp", "bell", "gate", "rope", "fog", "pier", "crow", "salt"),
    *("oh", "well", "yes", "no", "so", "then", "why", "look", "灯塔", "哑女", "и", "да"),
)
WORLD = {
    "0": {"uid": 0, "key": ["lamp"], "content": "A lamp.", "sticky": 3},
    "1": {"uid": 1, "key": ["bell"], "content": "A bell.", "cooldown": 4},
    "2": {"uid": 2, "key": ["gate"], "content": "A gate.", "delay": 9},
    "3": {"uid": 3, "key": ["rope"], "content": "A rope.", "sticky": 5, "cooldown": 6},
    "4": {"uid": 4, "constant": True, "content": "Later.", "delay": 14},
    "5": {"uid": 5, "key": ["灯塔"], "content": "塔。", "sticky": 12, "group": "g"},
    "6": {"uid": 6, "key": ["salt"], "content": "Salt.", "group": "g", "cooldown": 9},
    "7": {"uid": 7, "key": ["fog"], "content": "Fog.", "sticky": 2, "delay": 5},
    "8": {"uid": 8, "constant": True, "content": "Perhaps.", "probability": 50, "sticky": 4},
}


class Line(NamedTuple):
    """A message: who wrote it, and what."""

    speaker: str
    text: str


class Sent(NamedTuple):
    """What both clients send in a turn."""

    step: str
    whole: Sequence[Line]
    trimmed: Sequence[Line]
    system: str


class Chats:
    """A chat that changes at random; the trimming client has dropped its first `cut` messages."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._seen: set[tuple[Line, ...]] = set()
        self._branches: list[list[Line]] = []
        self.chat: list[Line] = []
        self.known = 0  # how many messages of the chat both have sent
        self.cut = 0
        self.summary: Line | None = None
        self.system = "Mira keeps the light."

    def turns(self, count: int) -> Iterator[Sent]:
        """Yield turns."""
        if self._random.random() < 0.5:
            self._say(CHAR)
        steps: Sequence[Callable[[], None]] = (
            *(self._send, self._send, self._send, self._send, self._swipe, self._edit),
            *(self._delete, self._branch, self._return, self._trim, self._trim),
            *(self._replace_head, self._change_system, self._repeat),
        )
        self._send()
        yield self._turn("first")
        for _ in range(count - 1):
            step = self._random.choice(steps)
            step()
            yield self._turn(step.__name__)

    def _turn(self, step: str) -> Sent:
        assert self.chat[-1].speaker == USER
        self.known = len(self.chat)
        head = [] if self.summary is None else [self.summary]
        return Sent(step, tuple(self.chat), (*head, *self.chat[self.cut :]), self.system)

    def _say(self, speaker: str) -> None:
        """Add a message so that no three in a row come twice."""
        while True:
            words = self._random.choices(WORDS, k=self._random.choice((1, 1, 2, 3)))
            self.chat.append(Line(speaker, " ".join(words)))
            if self._is_new():
                return
            self.chat.pop()

    def _is_new(self) -> bool:
        runs = {tuple(self.chat[at - 3 : at]) for at in range(3, len(self.chat) + 1)}
        last = tuple(self.chat[-3:])
        is_new = len(last) < 3 or last not in self._seen
        self._seen |= runs if is_new else set()
        return is_new

    def _send(self) -> None:
        if self.chat and self.chat[-1].speaker == USER:
            self._say(CHAR)
        self._say(USER)

    def _swipe(self) -> None:
        """Ask for another reply; the chat is that of the last turn."""

    def _repeat(self) -> None:
        """Send the same once more."""

    def _edit(self) -> None:
        places = range(self.cut + (self.cut > 0), len(self.chat))
        before = list(self.chat)
        at = self._random.choice(places)
        if min(at - self.cut, 2) + max(0, len(self.chat) - at - 1) < LEAST:
            return  # too little would be left to know the place by
        line = self.chat[at]
        self.chat[at] = Line(line.speaker, f"{self._random.choice(WORDS)} {at} {line.text}")
        assert self.chat != before

    def _delete(self) -> None:
        least = self.cut + LEAST
        if self.known <= least + 1:
            return
        at = self._random.randrange(least, self.known)
        del self.chat[at:]
        if self.chat[-1].speaker == USER:
            self._say(CHAR)
        self._say(USER)

    def _branch(self) -> None:
        before = list(self.chat)
        self._delete()
        if before != self.chat:
            self._branches.append(before)

    def _return(self) -> None:
        """Go on with a chat that was left, as far as the trimming client still has it."""
        left = [each for each in self._branches if len(each) >= self.cut + LEAST]
        same = [each for each in left if each[: self.cut + 2] == self.chat[: self.cut + 2]]
        if same:
            self.chat = list(same[-1])
            self._send()

    def _trim(self) -> None:
        if len(self.chat) - self.cut > LEAST:
            keep = self._random.randint(LEAST, MOST)
            self.cut = max(self.cut, len(self.chat) - keep)
        self._send()

    def _replace_head(self) -> None:
        if len(self.chat) - self.cut > LEAST + 2:
            self.cut = len(self.chat) - self._random.randint(LEAST, LEAST + 2)
            self.summary = Line("", f"Before: {self._random.choice(WORDS)} {self.cut}")
        self._send()

    def _change_system(self) -> None:
        self.system = f"Mira, {self._random.choice(WORDS)}."
        self._send()


def activation(sent: Sequence[Line], conversation: str, system: str, seed: str) -> dict[str, Any]:
    """Return the body of a turn of `/v1/sillytavern/activate`."""
    return {
        "conversation_id": conversation,
        "books": [{"name": "w", "entries": {uid: {"order": 1, **each} for uid, each in WORLD.items()}}],
        "chat": [{"name": each.speaker or None, "content": each.text} for each in sent],
        "macros": {"user": USER, "char": CHAR},
        "scan_texts": {"character_description": system},
        "context_tokens": 8_000,
        "seed": seed,
        "explain": "selected",
    }
