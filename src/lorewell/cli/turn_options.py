"""What the options and files of a command say, as values of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lorewell.errors import ValidationFailedError
from lorewell.formats.faults import naming
from lorewell.formats.files import load_json
from lorewell.model import BookRef, SelectRequest
from lorewell.model.parse import parse_model

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOptions:
    """What the options say about a turn; None where an option was not given.

    Not both and not neither of `query` and `request`, or it raises ValidationFailedError.

    Attributes:
        query: the current input.
        request: a file with a SelectRequest, whose `books` may be left out.
        history: a file with a list of `{role, content}`, oldest first.
        state: a file with an object.
        budget_tokens: room for the whole context.
        seed: what chance is drawn from.
        strategy: `rules` or `hybrid`.
        char: stands for `{{char}}`.
        user: stands for `{{user}}`.
    """

    query: str | None = None
    request: Path | None = None
    history: Path | None = None
    state: Path | None = None
    budget_tokens: int | None = None
    seed: str | None = None
    strategy: str | None = None
    char: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        if (self.query is None) == (self.request is None):
            raise ValidationFailedError("Give either --query or --request, and not both.")


def load_request(turn: TurnOptions, books: Sequence[BookRef]) -> SelectRequest:
    """Return the request; options win over the request file.

    Args:
        turn: what the options say.
        books: the books to ask where the request file names none, in order.

    Raises:
        FileTooLargeError: a file is larger than 16 MiB.
        ImportInvalidError: a file is no JSON.
        ValidationFailedError: the request breaks its schema.
        OSError: a file can't be read.
    """
    document = {} if turn.request is None else load_json(turn.request)
    what = "The request" if turn.request is None else f"The request in {turn.request.name}"
    if isinstance(document, dict):
        named = {"books": [book.model_dump() for book in books], **document}
        document = named | _overrides(turn, document.get("template_vars", {}))
    try:
        return parse_model(SelectRequest, document)
    except ValidationFailedError as error:
        raise naming(error, f"{what} is not valid") from error


def _overrides(turn: TurnOptions, template_vars: object) -> dict[str, object]:
    """Return the members of the request that options were given for."""
    options = {
        "query": turn.query,
        "token_budget": turn.budget_tokens,
        "seed": turn.seed,
        "strategy": turn.strategy,
    }
    given: dict[str, object] = _without_none(options)
    files = _without_none({"history": turn.history, "state": turn.state})
    given.update((name, load_json(path)) for name, path in files.items())
    names = _without_none({"char": turn.char, "user": turn.user})
    if names and isinstance(template_vars, dict):  # anything else is the schema's to refuse
        given["template_vars"] = template_vars | names
    return given


def _without_none(options: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in options.items() if value is not None}
