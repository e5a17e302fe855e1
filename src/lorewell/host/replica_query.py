"""Builds the request of a turn for the policy `replica`."""

from __future__ import annotations

from collections.abc import Sequence

from lorewell.host.query import TurnInputs, chat_before_input, input_text, read_state
from lorewell.model import BookRef, ReplicaRequest
from lorewell.model.assemble import DraftMessage
from lorewell.model.binding import character_book
from lorewell.model.parse import parse_model
from lorewell.model.replica import MAX_HISTORY
from lorewell.model.scene_fields import for_request, table_of


def make_replica(draft: Sequence[DraftMessage], turn: TurnInputs) -> ReplicaRequest:
    """Return the request of a turn for the policy `replica`, made from the draft of its prompt.

    The first book that is bound as the character's is that; the others are global. The history is
    the chat before the input. Strategy and budget have no effect in this policy.

    Raises:
        ValidationFailedError: a text can't be stored, the table takes over 256 KiB, or the request
            id is too long.
        MalformedJsonError: the saved state is an object nested deeper than 100.
    """
    history = [text for _, text in chat_before_input(draft)][-MAX_HISTORY:]
    members = {
        "worldBookData": _book_data(turn.books),
        "mes": input_text(draft),
        "chatHistory": tuple(history),
        "dynamicTableData": {"currentValues": table_of(read_state(turn.saved_state) or {})},
        "seed": turn.request_id,
        "char": turn.char,
        "user": turn.user,
    }
    return parse_model(ReplicaRequest, for_request(members, turn.scene, "replica"))


def _book_data(books: Sequence[BookRef]) -> dict[str, object]:
    character = character_book(books)
    others = (book for book in books if book is not character)
    listed = ({"id": book.book_id, "revision": book.revision} for book in others)
    data: dict[str, object] = {"globalBooks": tuple(listed)}
    if character is not None:
        data["characterBookId"] = character.book_id
        data["characterBookRevision"] = character.revision
    return data
