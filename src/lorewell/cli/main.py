"""The program `lorewell`: its commands, and how it reports errors."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lorewell.cli import (
    books,
    chat,
    conditions,
    convert,
    explain,
    gateway,
    import_inspect,
    indexes,
    keys,
    lint,
    live,
    replays,
    replica,
    searches,
    service,
    sillytavern,
)
from lorewell.cli.book_contents import contents_tables, load_contents
from lorewell.cli.failures import describe, exit_code
from lorewell.cli.library import API_KEY, DEFAULT_TENANT, TENANT, URL
from lorewell.cli.printing import print_json, print_parts, say
from lorewell.cli.prompt_turn import PromptAtService, show_turn
from lorewell.cli.selection_tables import ShownEntries, selection_tables
from lorewell.cli.turn_options import TurnOptions, load_request
from lorewell.engine.native import select
from lorewell.engine.tokens import DEFAULT_TOKENIZER, counter
from lorewell.errors import LorewellError, ValidationFailedError
from lorewell.formats import load_book
from lorewell.model.plain import plain_lines
from lorewell.model.prompt_settings import PROMPT_STRATEGY, PROMPT_TOKEN_BUDGET

_File = Annotated[Path, typer.Argument(metavar="FILE", help="Lorebook, or card that holds one.")]
_Tokenizer = Annotated[
    str, typer.Option(metavar="NAME|FILE", help="Encoding or model, or path of a tokenizer.json.")
]


class _Program(TyperGroup):
    """The commands. Usage errors quote the command line with hidden characters escaped."""

    def make_context(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401  as typer calls it
        """Parse the command line up to the name of a command."""
        with _plain_messages():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  typer's context has no public class
        """Run the command."""
        with _plain_messages():
            return super().invoke(ctx)


@contextmanager
def _plain_messages() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)  # set on typer's own errors, which it prints
        if isinstance(message, str):
            vars(error)["message"] = plain_lines(message)
        raise


app = typer.Typer(
    cls=_Program, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False
)
app.command("serve")(service.serve_command)
app.command("gateway")(gateway.gateway_command)
app.command("migrate")(service.migrate_command)
app.command("backup")(service.backup_command)
app.command("settings")(service.settings_command)
app.command("chat")(chat.chat_command)
app.command("import")(import_inspect.import_command)
app.command("inspect")(import_inspect.inspect_command)
app.command("convert")(convert.convert_command)
app.command("explain")(explain.explain_command)
app.command("lint")(lint.lint_command)
app.command("try")(conditions.try_command)
app.command("bind")(books.bind_command)
app.command("bindings")(books.bindings_command)
app.command("prompts")(books.prompts_command)
app.command("index")(indexes.index_command)
app.command("search")(searches.search_command)
app.command("live")(live.live_command)
app.command("replay")(replays.replay_command)
app.command("diff")(replays.diff_command)
app.command("plan")(replays.plan_command)
app.add_typer(books.app, name="book")
app.add_typer(keys.app, name="keys")
app.add_typer(sillytavern.app, name="sillytavern")
app.add_typer(replica.app, name="replica")


def main() -> None:
    """Run the program. An error is one line on stderr and an exit code.

    A bug prints its traceback, without the values of variables: they may be secret.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # the terminal may lack a character
    try:
        app(prog_name="lorewell")
    except (LorewellError, OSError) as error:
        say(f"lorewell: {describe(error)}", err=True)
        sys.exit(exit_code(error))
    except Exception as error:  # noqa: BLE001  the last resort
        for line in traceback.format_exc().splitlines():
            say(line, err=True)
        sys.exit(exit_code(error))


def _print_version(requested: bool) -> None:  # noqa: FBT001  typer's signature of a callback
    if requested:
        say(f"lorewell {version('lorewell')}")
        raise typer.Exit


@app.callback()
def lorewell(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Select the lorebook entries for a prompt: which, where, within how many tokens, and why."""


@app.command("select")
def select_command(  # noqa: PLR0913  an option is a parameter
    *,
    book: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Book to select from (repeatable).")
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Prompt at a service, whose books and settings are used instead."
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help=f"URL of the service, for --prompt; {URL} by default.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(help=f"API key of the service; {API_KEY} by default.")
    ] = None,
    tenant: Annotated[
        str, typer.Option(envvar=TENANT, show_envvar=False, help="Tenant at the service.")
    ] = DEFAULT_TENANT,
    query: Annotated[str | None, typer.Option(help="Current user input.")] = None,
    request: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON file with a request. Without `books`, it uses every --book."
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON file with the chat: a list of {role, content}, oldest first."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON file with the object that conditions read."),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            help=f"Token budget for all entries; {PROMPT_TOKEN_BUDGET} by default.",
        ),
    ] = None,
    seed: Annotated[
        str | None, typer.Option(help="Seed of all probability rolls; 0 by default.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="rules|hybrid",
            help=f"hybrid also recalls entries that rank for the query; {PROMPT_STRATEGY} by "
            "default. A request file has the defaults of a request.",
        ),
    ] = None,
    tokenizer: _Tokenizer = DEFAULT_TOKENIZER,
    char: Annotated[str | None, typer.Option(help="Value of {{char}}.")] = None,
    user: Annotated[str | None, typer.Option(help="Value of {{user}}.")] = None,
    entry: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Show the decision on this entry alone (repeatable)."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="List every entry that is left out.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole answer as JSON.")
    ] = False,
) -> None:
    """Show which entries go into this turn, and why the others don't.

    With --prompt, it is a turn of that prompt under its policy; nothing is stored. Give the input
    with --query, or a whole request with --request.
    """
    turn = TurnOptions(
        query=query,
        request=request,
        history=history,
        state=state,
        budget_tokens=budget,
        seed=seed,
        strategy=strategy,
        char=char,
        user=user,
    )
    if bool(book) == (prompt is not None):
        raise ValidationFailedError("Give either --book or --prompt.")
    if prompt is not None:
        at_service = PromptAtService(
            prompt_id=prompt,
            url=url or os.environ.get(URL) or None,
            api_key=api_key or os.environ.get(API_KEY) or None,
            tenant=tenant,
        )
        show_turn(at_service, turn, counter(tokenizer), as_json=as_json)
        return
    books = [load_book(path, counter=counter(tokenizer)) for path in book or []]
    select_request = load_request(turn, [compiled.ref for compiled in books])
    start = perf_counter()
    answer = select(books, select_request)
    answer = replace(answer, duration_ms=(perf_counter() - start) * 1000)
    if as_json:
        print_json(answer.to_json())
    else:
        shown = ShownEntries(ids=tuple(entry or ()), every=every)
        print_parts(*selection_tables(books, select_request, answer, shown))


@app.command("show")
def show_command(
    file: _File,
    *,
    tokenizer: _Tokenizer = DEFAULT_TOKENIZER,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the book's contents as JSON.")
    ] = False,
) -> None:
    """Show a book: its entries, their tokens, and warnings."""
    contents = load_contents(file, counter(tokenizer))
    if as_json:
        print_json(contents.to_json())
    else:
        print_parts(*contents_tables(contents))
