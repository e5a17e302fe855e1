"""Two clients of one chat: one sends everything, the other drops old messages.

A chat is changed at random, as people do it: they send, swipe, edit, delete, branch and come back.
Both clients send it after each change, and every turn must activate the same entries for both.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lorewell.app.access import Caller
from lorewell.app.bindings import put_bindings
from lorewell.app.gateway.chat import ChatTurn, enrich
from lorewell.app.imports import UploadedFile, import_files
from lorewell.app.runtime.gateway import Gateway
from lorewell.app.services import Services
from lorewell.app.sillytavern.activation import activate_turn
from lorewell.model import ActivateRequest, BindingsPut, SillyTavernResponse

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
        """Edit a line that is still sent, if enough lines in a row are left."""
        at = self._random.randrange(self.cut, len(self.chat))
        if max(at - self.cut, len(self.chat) - at - 1) >= LEAST or not self.cut:
            speaker, text = self.chat[at]
            self.chat[at] = Line(speaker, f"{self._random.choice(WORDS)} {len(text)} {text}")

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
        if len(self.chat) - self.cut > LEAST + 3:
            self.cut = len(self.chat) - self._random.randint(LEAST, LEAST + 2)
            self.summary = Line("", f"Before: {self._random.choice(WORDS)} {self.cut}")
        self._send()

    def _change_system(self) -> None:
        self.system = f"Mira, {self._random.choice(WORDS)}."
        self._send()


def activation(sent: Sequence[Line], conversation: str, system: str, seed: str) -> ActivateRequest:
    """Return a turn."""
    entries = {uid: {"order": 1, **each} for uid, each in WORLD.items()}
    document = {
        "conversation_id": conversation,
        "books": [{"name": "w", "entries": entries}],
        "chat": [{"name": each.speaker or None, "content": each.text} for each in sent],
        "macros": {"user": USER, "char": CHAR},
        "scan_texts": {"character_description": system},
        "context_tokens": 8_000,
        "seed": seed,
        "explain": "selected",
    }
    return ActivateRequest.model_validate(document)


async def play(services: Services, seed: int, turns: int) -> Counter[str]:
    """Play a random chat as both clients; return how often each state was reported.

    Raises:
        AssertionError: a turn went differently for the trimming client.
    """
    reports: Counter[str] = Counter()
    for number, sent in enumerate(Chats(seed).turns(turns)):
        rolls = f"{seed}:{len(sent.whole)}"
        whole, trimmed = [
            await activate_turn(
                services, "t", activation(lines, f"{name}-{seed}", sent.system, rolls)
            )
            for name, lines in (("whole", sent.whole), ("trimmed", sent.trimmed))
        ]
        at = (seed, number, sent)
        assert entries_of(trimmed) == entries_of(whole), at
        assert trimmed.timed_state == whole.timed_state, at
        assert trimmed.conversation is not None, at
        assert whole.conversation is not None, at
        assert trimmed.conversation.kept_after == whole.conversation.kept_after, at
        reports[trimmed.conversation.state] += 1
    return reports


async def play_at_gateway(
    services: Services, caller: Caller, seed: int, turns: int, *, is_named: bool
) -> Counter[str]:
    """Play a random chat at the gateway, where replies are known; return the reported states.

    Without names, `user` tells the two clients apart.

    Raises:
        AssertionError: a turn went differently for the trimming client.
    """
    reports: Counter[str] = Counter()
    played = list(Chats(seed).turns(turns))
    for sent, later in zip(played, [*played[1:], played[-1]], strict=True):
        so_far = len(sent.whole)
        replies = later.whole[so_far : so_far + 1] if later.whole[:so_far] == sent.whole else ()
        answers = []
        for name, lines in (("whole", sent.whole), ("trimmed", sent.trimmed)):
            who = f"{name}-{seed}"
            given = {"conversation_id": who if is_named else None, "end_user": who}
            turn = ChatTurn(prompt_ids=["p"], **given, messages=messages(sent, lines), chars=1_000)
            answer = await enrich(services, gateway_of(services), caller, turn)
            assert answer is not None
            assert answer.hear is not None
            for reply in replies:
                await answer.hear(f" {reply.text}\n")
            answers.append(answer)
        whole, trimmed = answers
        assert trimmed.entry_ids == whole.entry_ids, (seed, sent)
        assert trimmed.continued is not None
        reports[trimmed.continued.state] += 1
    return reports


async def bind_world(services: Services) -> None:
    """Store the book and bind it to the prompt `p` of the tenant `default`."""
    document = json.dumps({"name": "w", "entries": WORLD}).encode()
    file = UploadedFile("w.json", document)
    stored = await import_files(services, "default", [file], key=None)
    bound = {"bindings": [{"book_id": stored.books[0].book_id}]}
    await put_bindings(services, "default", "p", BindingsPut.model_validate(bound))


def messages(sent: Sent, lines: Sequence[Line]) -> list[dict[str, str]]:
    """Return lines as messages, without names; a summary is a system message."""
    roles = {USER: "user", CHAR: "assistant", "": "system"}
    said = [{"role": roles[each.speaker], "content": each.text} for each in lines]
    return [{"role": "system", "content": sent.system}, *said]


def gateway_of(services: Services) -> Gateway:
    """Return the gateway."""
    assert services.gateway is not None
    return services.gateway


def entries_of(answer: SillyTavernResponse) -> list[tuple[str, str]]:
    """Return the active entries and why they are active."""
    return [(each.id, each.reason) for each in answer.activated]
