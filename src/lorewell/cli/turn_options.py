"""The options and files of a turn, as a request of the contract."""

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
from lorewell.model.prompt_settings import PROMPT_DEFAULTS

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOptions:
    """The options of a turn; None where an option was not given.

    Exactly one of `query` and `request` must be given, else it raises ValidationFailedError.

    Attributes:
        query: the current user input.
        request: a JSON file with a SelectRequest, whose `books` may be left out.
        history: a JSON file with a list of `{role, content}`, oldest first.
        state: a JSON file with an object.
        budget_tokens: token budget for all entries.
        seed: seeds the probability rolls.
        strategy: `rules` or `hybrid`.
        char: value of `{{char}}`.
        user: value of `{{user}}`.
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
            raise ValidationFailedError("Give either --query or --request.")


def load_request(turn: TurnOptions, books: Sequence[BookRef]) -> SelectRequest:
    """Return the request; options override the request file.

    Without a file, it has the defaults of a prompt's turns; a file has those of its contract.

    Args:
        turn: the options.
        books: the books to use if the request file names none, in order.

    Raises:
        FileTooLargeError: a file is larger than 16 MiB.
        ImportInvalidError: a file is not JSON.
        ValidationFailedError: the request breaks its schema.
        OSError: a file can't be read.
    """
    usual = {**PROMPT_DEFAULTS.given()}
    document = usual if turn.request is None else load_json(turn.request)
    subject = "The request" if turn.request is None else f"The request in {turn.request.name}"
    if isinstance(document, dict):
        named = {"books": [book.model_dump() for book in books], **document}
        document = named | _overrides(turn, document.get("template_vars", {}))
    try:
        return parse_model(SelectRequest, document)
    except ValidationFailedError as error:
        raise naming(error, f"{subject} is not valid") from error


def _overrides(turn: TurnOptions, template_vars: object) -> dict[str, object]:
    """Return the request members that options set."""
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
    if names and isinstance(template_vars, dict):  # the schema rejects anything else
        given["template_vars"] = template_vars | names
    return given


def _without_none(options: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in options.items() if value is not None}
