"""The options and files of `lorewell replay`, `diff` and `plan`, as sides of a chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lorewell.cli.option_values import parse_options
from lorewell.engine.native.compile import compile_book
from lorewell.engine.replica import compile_world
from lorewell.engine.sillytavern.sources import Library
from lorewell.engine.tokens import TokenCounter
from lorewell.errors import ValidationFailedError
from lorewell.formats import load_world, open_book
from lorewell.formats.chats import ChatTranscript
from lorewell.formats.export.replica import replica_document
from lorewell.formats.faults import naming
from lorewell.formats.files import load_json
from lorewell.host.usage import sillytavern_use
from lorewell.insight.chats import ChatSide, NativeSide, ReplicaSide, SillyTavernSide
from lorewell.model import BindingsPut, Policy, ReplicaRequest, SelectRequest
from lorewell.model.activate import SillyTavernRequest, SillyTavernSettings
from lorewell.model.binding import original_policy
from lorewell.model.parse import parse_model
from lorewell.model.prompt_settings import PROMPT_DEFAULTS, PROMPT_TOKEN_BUDGET, SillyTavernDefaults


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOptions:
    """One side of a chat.

    Attributes:
        books: files, in order.
        policy: the policy, or `auto` for the one that the first book was written for.
        budget_tokens: token budget; None for the default.
        settings: a JSON file with members of the policy's request.
        seed: seed of all turns.
        user, char: names that replace those of the chat.
    """

    books: Sequence[Path]
    policy: str = "auto"
    budget_tokens: int | None = None
    settings: Path | None = None
    seed: str | None = None
    user: str | None = None
    char: str | None = None


def load_side(options: SideOptions, chat: ChatTranscript, counter: TokenCounter) -> ChatSide:
    """Return the side of the options.

    Raises:
        ValidationFailedError: an option or the settings break their schema, or there is no book.
        ImportInvalidError, FileTooLargeError, OSError: a file can't be used.
    """
    if not options.books:
        raise ValidationFailedError("No book given: pass --book.")
    try:
        match _policy(options):
            case "native":
                return _native(options, chat, counter)
            case "sillytavern":
                return _sillytavern(options, chat, counter)
            case "replica":
                return _replica(options, chat, counter)
    except ValidationFailedError as error:
        raise naming(error, "The chat can't be replayed with these options") from error


def _policy(options: SideOptions) -> Policy:
    members = {"bindings": (), "policy": options.policy}
    given = parse_options(BindingsPut, members, {"policy": "--policy"}).policy
    if given != "auto":
        return given
    return original_policy(open_book(options.books[0]).book)


def _settings(options: SideOptions) -> dict[str, object]:
    document = {} if options.settings is None else load_json(options.settings)
    if not isinstance(document, dict):
        raise ValidationFailedError("The settings must be a JSON object.")
    return {**document, **({} if options.seed is None else {"seed": options.seed})}


def _names(options: SideOptions, chat: ChatTranscript) -> dict[str, str]:
    names = {"user": options.user or chat.user, "char": options.char or chat.char}
    return {name: value for name, value in names.items() if value}


def _native(options: SideOptions, chat: ChatTranscript, counter: TokenCounter) -> NativeSide:
    books = [compile_book(open_book(path).book, counter=counter) for path in options.books]
    members = {
        **PROMPT_DEFAULTS.given(),
        "template_vars": _names(options, chat),
        **_settings(options),
        "books": [book.ref.model_dump() for book in books],
        "query": " ",
    }
    if options.budget_tokens is not None:
        members["token_budget"] = options.budget_tokens
    return NativeSide(books=books, request=parse_model(SelectRequest, members), chat=chat.lines)


def _sillytavern(
    options: SideOptions, chat: ChatTranscript, counter: TokenCounter
) -> SillyTavernSide:
    given = _settings(options)
    known = SillyTavernSettings.model_fields
    own = parse_model(
        SillyTavernDefaults, {name: given.pop(name) for name in [*given] if name in known}
    )
    budget = PROMPT_TOKEN_BUDGET if options.budget_tokens is None else options.budget_tokens
    use = sillytavern_use(own, token_budget=budget, context_window=None)
    members = {
        "context_tokens": use.context_tokens,
        "macros": _names(options, chat),
        **given,
        "settings": use.settings.model_dump(),
        "chat": [{"name": line.name or None, "content": line.content} for line in chat.lines],
    }
    books = [load_world(path) for path in options.books]
    return SillyTavernSide(
        library=Library(books), request=parse_model(SillyTavernRequest, members), counter=counter
    )


def _replica(options: SideOptions, chat: ChatTranscript, counter: TokenCounter) -> ReplicaSide:
    worlds = {
        str(number): compile_world(replica_document(open_book(path).book), book_id=str(number))
        for number, path in enumerate(options.books)
    }
    members = {
        **_names(options, chat),
        **_settings(options),
        "worldBookData": {"globalBooks": [{"id": name} for name in worlds]},
    }
    return ReplicaSide(
        worlds=worlds,
        request=parse_model(ReplicaRequest, members),
        chat=chat.lines,
        counter=counter,
    )
