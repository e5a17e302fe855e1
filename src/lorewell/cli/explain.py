"""`lorewell explain`: why an entry fires or not, and what would change that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorewell.cli.explain_tables import explain_parts
from lorewell.cli.printing import print_json, print_parts
from lorewell.cli.sillytavern_inputs import ScanOptions, load_scan
from lorewell.cli.turn_options import TurnOptions, load_request
from lorewell.engine.replica import compile_world
from lorewell.engine.sillytavern.turns import with_inline
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import DEFAULT_TOKENIZER, TokenCounter, counter
from lorewell.errors import ValidationFailedError
from lorewell.formats import load_book, load_world, open_book
from lorewell.formats.export.replica import replica_document
from lorewell.formats.files import load_json
from lorewell.formats.plain_chat import load_any_chat
from lorewell.insight.explain import explain_activation, explain_context, explain_replica
from lorewell.model import BookRef, ReplicaRequest, SelectRequest
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.explained import MAX_BUDGET, ExplainOptions, Explanation
from lorewell.model.parse import parse_model
from lorewell.model.prompt_settings import PROMPT_DEFAULTS

_MAX_HISTORY = 100
_CONTEXT_TOKENS = 8192


def explain_command(  # noqa: PLR0913  an option is a parameter
    book: Annotated[Path, typer.Argument(metavar="BOOK", help="Lorebook, or card with one.")],
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="Id of the entry.")],
    *,
    query: Annotated[str | None, typer.Option(help="Current user input.")] = None,
    chat: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Chat to explain the last message of: SillyTavern's .jsonl, or JSON messages.",
        ),
    ] = None,
    request: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON file with a request.")
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar="native|sillytavern|replica", help="Whose rules apply.")
    ] = "native",
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON file with the object that conditions read."),
    ] = None,
    seed: Annotated[str | None, typer.Option(help="Seed of all probability rolls.")] = None,
    char: Annotated[str | None, typer.Option(help="Value of {{char}}.")] = None,
    user: Annotated[str | None, typer.Option(help="Value of {{user}}.")] = None,
    steps: Annotated[
        int, typer.Option(metavar="N", help="Most steps of the search for changes.")
    ] = MAX_BUDGET,
    tokenizer: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="Encoding, model or tokenizer.json.")
    ] = DEFAULT_TOKENIZER,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole explanation as JSON.")
    ] = False,
) -> None:
    """Explain one entry in one turn: its gates, near misses of keys, and what would flip it.

    Every change that is shown was tried. Give the turn with --query, --chat or --request.
    """
    if sum(each is not None for each in (query, chat, request)) != 1:
        raise ValidationFailedError("Give one of --query, --chat and --request.")
    turn = TurnOptions(
        query=query if chat is None else "?",
        request=request,
        state=state,
        seed=seed,
        char=char,
        user=user,
    )
    asked = parse_model(ExplainOptions, {"entry": entry, "budget": steps})
    tokens = counter(tokenizer)
    if policy == "sillytavern":
        explanation = _by_sillytavern(book, turn, chat, asked, tokens)
    elif policy == "replica":
        explanation = _by_replica(book, turn, chat, asked)
    elif policy == "native":
        explanation = _by_native(book, turn, chat, asked, tokens)
    else:
        raise ValidationFailedError("--policy must be native, sillytavern or replica.")
    if as_json:
        print_json(explanation)
    else:
        print_parts(*explain_parts(explanation))


def _by_native(
    book: Path, turn: TurnOptions, chat: Path | None, asked: ExplainOptions, tokens: TokenCounter
) -> Explanation:
    compiled = load_book(book, counter=tokens)
    request = load_request(turn, [compiled.ref])
    if chat is not None:
        request = _from_chat(chat, request, compiled.ref)
    return explain_context([compiled], request, asked)


def _by_sillytavern(
    book: Path, turn: TurnOptions, chat: Path | None, asked: ExplainOptions, tokens: TokenCounter
) -> Explanation:
    if turn.state is not None:
        raise ValidationFailedError("--state does not go with --policy sillytavern.")
    if turn.request is not None:
        request = parse_model(SillyTavernRequest, load_json(turn.request))
        library = with_inline([load_world(book)], request, Steps())
    else:
        scan = ScanOptions(
            books={"global": [book]},
            card=None,
            chat=chat,
            query=turn.query if chat is None else None,
            settings=None,
            user=turn.user,
            char=turn.char,
            persona=None,
            context_tokens=_CONTEXT_TOKENS,
            seed=turn.seed,
            trigger="normal",
            fresh=False,
        )
        library, request, _ = load_scan(scan)
    return explain_activation(library, request, asked, counter=tokens)


def _by_replica(
    book: Path, turn: TurnOptions, chat: Path | None, asked: ExplainOptions
) -> Explanation:
    read = open_book(book).book
    world = compile_world(replica_document(read), book_id=read.name)
    said = [] if chat is None else [each.content for each in load_any_chat(chat).messages]
    document: object = {
        "mes": said[-1] if said else turn.query,
        "chatHistory": said[:-1],
        "char": turn.char,
        "user": turn.user,
        **({} if turn.seed is None else {"seed": turn.seed}),
    }
    if turn.request is not None:
        document = load_json(turn.request)
    if isinstance(document, dict):  # the schema rejects anything else
        table = {} if turn.state is None else load_json(turn.state)
        document.setdefault("worldBookData", {"globalBooks": [{"id": read.name}]})
        document.setdefault("dynamicTableData", {"currentValues": table})
    request = parse_model(ReplicaRequest, document)
    return explain_replica({read.name: world}, request, asked)


def _from_chat(path: Path, options: SelectRequest, book: BookRef) -> SelectRequest:
    """Return the turn after the last message of a chat."""
    chat = load_any_chat(path)
    if not chat.messages:
        raise ValidationFailedError(f"{path.name} has no message.")
    *earlier, last = chat.messages
    names = {"char": chat.char, "user": chat.user}
    return parse_model(
        SelectRequest,
        {
            **PROMPT_DEFAULTS.given(),
            "books": [book.model_dump()],
            "query": last.content,
            "history": [
                {"role": "user" if each.is_user else "assistant", "content": each.content}
                for each in earlier[-_MAX_HISTORY:]
            ],
            "state": options.state,
            "seed": options.seed,
            "template_vars": {
                **{name: value for name, value in names.items() if value},
                **options.template_vars,
            },
        },
    )
