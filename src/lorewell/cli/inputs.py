"""What the options and files of a command say, as values of the contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lorewell.engine.tokens import BUNDLED, TokenCounter, counter
from lorewell.errors import InvalidInputError, LorewellError, NotFoundError, ValidationFailedError
from lorewell.formats.faults import naming
from lorewell.formats.files import load_json
from lorewell.model import BookRef, SelectRequest
from lorewell.model.parse import parse_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the options say about a turn; None where an option was not given.

    Not both and not neither of `query` and `request`, or it raises InvalidInputError.

    Attributes:
        query: the current input.
        request: a file with a SelectRequest, whose `books` may be left out.
        history: a file with a list of `{role, content}`, oldest first.
        state: a file with an object.
        budget_tokens: room for the whole context.
        seed: what chance is drawn from.
        char: stands for `{{char}}`.
        user: stands for `{{user}}`.
    """

    query: str | None = None
    request: Path | None = None
    history: Path | None = None
    state: Path | None = None
    budget_tokens: int | None = None
    seed: str | None = None
    char: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        if (self.query is None) == (self.request is None):
            raise InvalidInputError("Give either --query or --request, and not both.")


def load_request(turn: Turn, books: Sequence[BookRef]) -> SelectRequest:
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


def _overrides(turn: Turn, template_vars: object) -> dict[str, object]:
    given: dict[str, object] = {
        "query": turn.query,
        "history": None if turn.history is None else load_json(turn.history),
        "state": None if turn.state is None else load_json(turn.state),
        "token_budget": turn.budget_tokens,
        "seed": turn.seed,
    }
    names = {"char": turn.char, "user": turn.user}
    names = {name: text for name, text in names.items() if text is not None}
    if names and isinstance(template_vars, dict):  # anything else is the schema's to refuse
        given["template_vars"] = template_vars | names
    return {name: value for name, value in given.items() if value is not None}


def find_counter(name: str) -> TokenCounter:
    """Return the counter of a bundled encoding, or of a `tokenizer.json` by its path.

    Raises:
        NotFoundError: it is neither the name of an encoding nor a file.
        InvalidInputError: the file is no tokenizer.
        LorewellError: the extra that reads such files is not installed.
    """
    if name not in BUNDLED and not Path(name).is_file():
        known = ", ".join(BUNDLED)
        raise NotFoundError(f"No tokenizer {name!r}: neither a file nor one of {known}.")
    try:
        return counter(name)
    except ImportError as error:
        how = "pip install 'lorewell[tokenizers]'"
        raise LorewellError(f"A tokenizer file needs an extra package: {how}") from error
    except Exception as error:  # the tokenizers package raises nothing narrower
        raise InvalidInputError(f"{name} is no tokenizer file: {error}") from error
