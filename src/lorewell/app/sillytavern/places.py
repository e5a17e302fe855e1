"""The conversation that a turn belongs to, its place there, and the state that it starts with.

The state after a turn is stored under the chain of its last line, a hash of all lines up to it. The
next turn starts with the state of the longest stored chat that its own chat continues. So a swipe,
which has the same messages again, starts as the first attempt did, and an edited or branched chat
starts with the state before the change. No locks are needed, and repeating a turn changes nothing.
If only the last messages are sent, `lorewell.host.alignment` finds their place.

Source: docs/rules/host.md §17.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lorewell.app.ports import Transaction
from lorewell.app.rows import StateMark
from lorewell.app.services import Services
from lorewell.app.sillytavern.user_variables import UserTurn, UserVariables
from lorewell.errors import Fault, ValidationFailedError
from lorewell.host.alignment import (
    HashedLine,
    Place,
    SentLine,
    align,
    branch_of,
    hash_lines,
    is_continued,
    lines_of,
    start_over,
)
from lorewell.host.carried import CarriedState
from lorewell.host.known_lines import CHAIN_BYTES, KnownLines
from lorewell.model import ActivateRequest
from lorewell.model.activate import ChatLine
from lorewell.model.activated import Continued, ContinuedState
from lorewell.model.text import canonical_json

_SHORT_CHARS: Final = 50_000
_MAX_ASKED: Final = 128
MAX_PAIRS: Final = 256
_MAX_FOUND: Final = 8
_PAIR_BYTES: Final = 16
_ID_BYTES: Final = 20
# Ids of conversations that their client does not name. No client may use one.
_UNNAMED: Final = "~"
_UNNAMED_CHARS: Final = 1 + 2 * _ID_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedScope:
    """The bounds within which a chat without an id is recognised, besides the tenant.

    Attributes:
        prompt_id: the prompt.
        key_id: the API key; None without one.
        user: `user` of the request; None without one.
        old_id: the id under which earlier versions kept its state.
    """

    prompt_id: str
    key_id: str | None
    user: str | None
    old_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnChat:
    """The chat of a turn, hashed.

    Attributes:
        name: the conversation that the client names; None for an unnamed one.
        scope: hash of the scope of an unnamed one.
        old_id: as in `UnnamedScope`.
        owner: hash of the user, whose conversations share global variables; empty if the request
            does not say who it is.
        lines: the lines.
        begun: their place if the conversation begins with the first one.
        messages: the same as given, for the hashes of earlier versions.
    """

    name: str | None
    scope: bytes = b""
    old_id: str = ""
    owner: bytes = b""
    lines: Sequence[HashedLine]
    begun: Place
    messages: Sequence[ChatLine] = field(repr=False)

    @property
    def replier(self) -> str:
        """The speaker of a reply."""
        return speaker_of("assistant", None, has_role=bool(self.scope))


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingState:
    """The state that a turn of a conversation starts with, and its report in the answer.

    Attributes:
        carried: the state.
        report: its report.
        place: of the chat in the conversation.
        known: the known lines of the conversation.
        body: these lines as stored; None if they are not stored for this conversation yet.
        copied: the state under its mark, if it comes from another conversation: a branch of an
            unnamed chat becomes a conversation of its own.
        user_turn: the turn for its user's global variables; None if the user is not known.
    """

    carried: CarriedState
    report: Continued
    place: Place
    known: KnownLines
    body: bytes | None
    copied: tuple[StateMark, bytes] | None = None
    user_turn: UserTurn | None = None

    def of(self, request: ActivateRequest) -> ActivateRequest:
        """Return the request with this state and the length of the whole chat."""
        return self.carried.begin(request).model_copy(
            update={
                "conversation_id": self.report.conversation_id,
                "chat_length": self.place.length,
            }
        )


async def hash_chat(
    services: Services,
    tenant_id: str,
    request: ActivateRequest,
    *,
    spoken: Sequence[SentLine] | None = None,
    scope: UnnamedScope | None = None,
    keeps: bool = True,
) -> TurnChat | None:
    """Return the chat of a turn, hashed; None if it belongs to no conversation.

    Args:
        services: the service.
        tenant_id: the tenant.
        request: the turn.
        spoken: the lines with their roles; by default, all but those of `macros.user` may be
            replies.
        scope: of an unnamed conversation. If the request names one, it only says who the user is.
        keeps: whether the turn will be kept.

    Raises:
        ValidationFailedError: the id is one of those that the service makes itself.
    """
    name = request.conversation_id
    if name is None and scope is None:
        return None
    if name is not None and _is_unnamed(name):
        detail = "must not be an id that the service made for a conversation without one"
        raise ValidationFailedError.at(Fault("/conversation_id", detail))
    key = await services.secrets.get(services.store, tenant_id, make=keeps)

    def hash_all() -> TurnChat:
        lines = hash_lines(key, lines_of(request) if spoken is None else spoken)
        named = name is not None or scope is None
        scope_hash = b"" if scope is None else _scope_hash(key, scope)
        return TurnChat(
            name=name,
            scope=b"" if named else scope_hash,
            old_id="" if named or scope is None else scope.old_id,
            owner=b"" if scope is None or scope.user is None else scope_hash,
            lines=lines,
            begun=start_over(lines),
            messages=request.chat,
        )

    # Short chats are faster hashed than handed to a thread.
    if sum(len(line.content) for line in request.chat) < _SHORT_CHARS:
        return hash_all()
    return await services.computing.run(tenant_id, hash_all)


def speaker_of(role: str, name: str | None, *, has_role: bool) -> str:
    """Return the speaker of a line.

    In an unnamed conversation, equal texts of different roles are different lines. In one with an
    id they are not, as its turns may also come without roles.
    """
    return f"{role}\0{name or ''}" if has_role else name or ""


def _is_unnamed(name: str) -> bool:
    is_hex = all(each in "0123456789abcdef" for each in name[1:])
    return len(name) == _UNNAMED_CHARS and name.startswith(_UNNAMED) and is_hex


def _scope_hash(key: bytes, scope: UnnamedScope) -> bytes:
    message = canonical_json([scope.prompt_id, scope.key_id, scope.user])
    return hashlib.blake2b(message, digest_size=_PAIR_BYTES, key=key).digest()


def _old_hashes(chat: Sequence[ChatLine]) -> list[str]:
    running = hashlib.sha256()
    hashes = [running.hexdigest()]
    for line in chat:
        running.update(canonical_json([line.name, line.content]))
        hashes.append(running.hexdigest())
    return hashes


def find_beginning(
    tx: Transaction, tenant_id: str, request: ActivateRequest, chat: TurnChat | None
) -> StartingState | None:
    """Return the starting state of a turn; None if it belongs to no conversation.

    A state in the request takes precedence over stored ones, a length over a found one.
    """
    if chat is None:
        return None
    if chat.name is None:
        return _find_unnamed(tx, tenant_id, request, chat)
    body = tx.find_lines(tenant_id, chat.name)
    known = KnownLines() if body is None else KnownLines.parse(body)
    kept = _KeptStates.of(tx, tenant_id, chat.name)
    place = align(known, chat.lines, kept=kept.chains)
    old = kept.old_beginning(chat)
    if old > (0 if place is None else place.overlap):
        place = replace(chat.begun, overlap=old)
    lost = place is None and bool(kept.marks or body)
    found = _Found(chat.name, _placed(place or chat.begun, request, chat), known, body, kept)
    return _starting(tx, tenant_id, request, chat, found, lost=lost)


@dataclass(frozen=True, slots=True)
class _KeptStates:
    """The marks of the states of a conversation, by their hashes."""

    conversation_id: str
    marks: Mapping[str, StateMark]

    @classmethod
    def of(cls, tx: Transaction, tenant_id: str, conversation_id: str) -> _KeptStates:
        marks = tx.list_marks(tenant_id, conversation_id)
        return cls(conversation_id, {each.messages_hash: each for each in marks})

    @property
    def chains(self) -> dict[bytes, int]:
        """The chains, with the length of the chat."""
        return {
            bytes.fromhex(name): each.message_count
            for name, each in self.marks.items()
            if len(name) == 2 * CHAIN_BYTES
        }

    def old_beginning(self, chat: TurnChat, most: int | None = None) -> int:
        """Return how many messages of the chat a state of an earlier version follows."""
        if all(len(name) == 2 * CHAIN_BYTES for name in self.marks):
            return 0
        hashes = _old_hashes(chat.messages[:most])
        numbers = range(len(hashes) - 1, 0, -1)
        return next((each for each in numbers if hashes[each] in self.marks), 0)

    def find(self, chat: TurnChat, place: Place, known: KnownLines) -> StateMark | None:
        """Return the mark of the longest shorter beginning of the chat that has a state."""
        chains = (each.hex() for each in place.beginnings(known))
        found = next((self.marks[each] for each in chains if each in self.marks), None)
        if place.head or place.first:
            return found
        before = chat.messages[:-1]
        old = self.old_beginning(chat, len(before))
        if found is not None and found.message_count >= old:
            return found
        return self.marks.get(_old_hashes(before[:old])[-1]) if chat.messages else None


@dataclass(frozen=True, slots=True)
class _Found:
    """A conversation, and the place of the chat in it."""

    conversation_id: str
    place: Place
    known: KnownLines
    body: bytes | None
    kept: _KeptStates


def _placed(place: Place, request: ActivateRequest, chat: TurnChat) -> Place:
    if request.given_length is None:
        return place
    return replace(place, first=request.given_length - len(chat.lines))


def _starting(
    tx: Transaction,
    tenant_id: str,
    request: ActivateRequest,
    chat: TurnChat,
    found: _Found,
    *,
    lost: bool,
) -> StartingState:
    mark, state, carried = None, None, CarriedState(request.timed_state)
    is_given = "timed_state" in request.model_fields_set
    if not lost:
        mark = found.kept.find(chat, found.place, found.known)
    if mark is not None:
        kept_id, kept_hash = found.kept.conversation_id, mark.messages_hash
        state = tx.get_state(tenant_id, kept_id, kept_hash)
        carried = CarriedState.parse(state)
    if is_given:  # then the place counts for variables alone
        carried, mark = carried._replace(timed_state=request.timed_state), None
    user_turn = _user_turn(tx, tenant_id, request, chat, found)
    if user_turn is not None:
        carried = carried.with_globals(user_turn.begun)
    how: ContinuedState = (
        "given" if is_given else "lost" if lost else "none" if mark is None else "kept"
    )
    report = Continued(
        conversation_id=found.conversation_id,
        state=how,
        kept_after=None if mark is None else mark.message_count,
    )
    is_copied = found.kept.conversation_id != found.conversation_id
    return StartingState(
        carried=carried,
        report=report,
        place=found.place,
        known=found.known,
        body=found.body,
        copied=(mark, state) if is_copied and mark is not None and state is not None else None,
        user_turn=user_turn,
    )


def _user_turn(
    tx: Transaction, tenant_id: str, request: ActivateRequest, chat: TurnChat, found: _Found
) -> UserTurn | None:
    if not chat.owner:
        return None
    turn = f"{found.conversation_id}/{found.place.end.hex()}"
    stored, given = UserVariables.find(tx, tenant_id, chat.owner), request.given_variables
    return UserTurn(
        owner=chat.owner,
        turn=turn,
        begun=given.get("global", stored.at(turn)),
        is_given="global" in given,
        is_repeated=turn == stored.turn,
    )


def _find_unnamed(
    tx: Transaction, tenant_id: str, request: ActivateRequest, chat: TurnChat
) -> StartingState:
    asked = list(_pairs_of_chat(chat))[-_MAX_ASKED:]
    counts = Counter(name for _, name in tx.find_paired(tenant_id, asked))
    candidates: list[_Found] = []
    for name, _ in counts.most_common(_MAX_FOUND):
        body = tx.find_lines(tenant_id, name)
        known = KnownLines.parse(body or b"")
        place = align(known, chat.lines, strict=True)
        if place is not None:
            kept = _KeptStates.of(tx, tenant_id, name)
            candidates.append(_Found(name, place, known, body, kept))
    longest = max((each.place.overlap for each in candidates), default=0)
    best = [each for each in candidates if each.place.overlap == longest]
    if len({each.place.end for each in best}) != 1:
        return _begin_unnamed(tx, tenant_id, request, chat)
    chosen = max(best, key=lambda each: _newest_first(each, chat))
    found = replace(chosen, place=_placed(chosen.place, request, chat))
    if not is_continued(chosen.known, chosen.place):  # a branch, or another user's chat
        known, place = branch_of(found.known, found.place)
        own = _new_id(chat, place)
        found = replace(found, conversation_id=own, place=place, known=known, body=None)
    return _starting(tx, tenant_id, request, chat, found, lost=False)


def _newest_first(found: _Found, chat: TurnChat) -> tuple[int, bool, str]:
    """Return what decides between branches that share the lines before the chat leaves them."""
    mark = found.kept.find(chat, found.place, found.known)
    is_next = is_continued(found.known, found.place)
    return 0 if mark is None else mark.message_count, is_next, found.conversation_id


def _begin_unnamed(
    tx: Transaction, tenant_id: str, request: ActivateRequest, chat: TurnChat
) -> StartingState:
    """Return the state of a chat that no known conversation holds.

    Earlier versions named a conversation by its first message. Such a state counts if it follows
    the same beginning, as long as an overlap has to be.
    """
    kept = _KeptStates.of(tx, tenant_id, chat.old_id)
    old = kept.old_beginning(chat, len(chat.lines) - 1)
    if not any(line.is_reply for line in chat.lines[:old]) or old < 2:  # noqa: PLR2004  an overlap
        kept = _KeptStates(chat.old_id, {})
    place = _placed(chat.begun, request, chat)
    found = _Found(_new_id(chat, chat.begun), place, KnownLines(), None, kept)
    asked = [index for index, line in enumerate(chat.lines) if not line.is_reply]
    answered = bool(asked) and any(line.is_reply for line in chat.lines[asked[0] :])
    return _starting(tx, tenant_id, request, chat, found, lost=answered and not kept.marks)


def _new_id(chat: TurnChat, place: Place) -> str:
    digest = hashlib.blake2b(chat.scope + place.end, digest_size=_ID_BYTES)
    return _UNNAMED + digest.hexdigest()


def _pairs_of_chat(chat: TurnChat) -> dict[bytes, None]:
    both = zip(chat.lines, chat.lines[1:], strict=False)
    return {
        _pair(chat.scope, one.line, other.line): None
        for one, other in both
        if one.is_reply or other.is_reply
    }


def pairs_of(scope: bytes, known: KnownLines) -> set[bytes]:
    """Return the pairs by which an unnamed conversation is found: those of its newest lines."""
    newest = sorted(known.lines, key=lambda each: (each.touched, each.number))[-MAX_PAIRS:]
    pairs = set()
    for each in newest:
        before = None if each.parent is None else known.lines[each.parent]
        if before is not None and (before.is_reply or each.is_reply):
            pairs.add(_pair(scope, before.line, each.line))
    return pairs


def _pair(scope: bytes, one: bytes, other: bytes) -> bytes:
    return hashlib.blake2b(scope + one + other, digest_size=_PAIR_BYTES).digest()
