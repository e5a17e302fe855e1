"""`lorewell sillytavern`: scans a chat under SillyTavern's rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorewell.cli.printing import print_json, print_parts, say
from lorewell.cli.sillytavern_inputs import LoadedScan, ScanOptions, load_scan
from lorewell.cli.sillytavern_tables import trace_parts, turns_table
from lorewell.engine.sillytavern.turns import activate, replay
from lorewell.engine.tokens import DEFAULT_TOKENIZER, TokenCounter, counter

app = typer.Typer(no_args_is_help=True, help="Scan a chat under SillyTavern's rules.")

_Books = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="Global book (repeatable).")
]


@app.callback()
def sillytavern() -> None:
    """Scan a chat under SillyTavern's rules."""


@app.command("run")
def run_command(  # noqa: PLR0913  an option is a parameter
    *,
    chat: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Chat: SillyTavern's .jsonl, or messages as JSON."),
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="Message of the user, after those of the chat.")
    ] = None,
    book: _Books = None,
    chat_book: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Book bound to the chat (repeatable).")
    ] = None,
    persona_book: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Book bound to the persona (repeatable)."),
    ] = None,
    character_book: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Book bound to the character (repeatable)."),
    ] = None,
    card: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Character card; its book, texts and file name are used."
        ),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON file with SillyTavern's settings.")
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of the newest messages to scan; 2 by default."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT", help="Token budget in percent of the context; 25 by default."
        ),
    ] = None,
    context: Annotated[int, typer.Option(metavar="TOKENS", help="Context size.")] = 8192,
    recursion: Annotated[
        bool | None,
        typer.Option(
            "--recursion/--no-recursion", help="Scan the texts of active entries (default), or not."
        ),
    ] = None,
    case: Annotated[
        bool | None,
        typer.Option("--case/--no-case", help="Match keys case-sensitively, or not (default)."),
    ] = None,
    whole_words: Annotated[
        bool | None,
        typer.Option(
            "--whole-words/--no-whole-words", help="Match whole words only (default), or parts."
        ),
    ] = None,
    trigger: Annotated[
        str, typer.Option(metavar="KIND", help="Generation type: normal, swipe, …")
    ] = "normal",
    seed: Annotated[str | None, typer.Option(help="Seed of the probability rolls.")] = None,
    user: Annotated[str | None, typer.Option(help="Name of the user.")] = None,
    char: Annotated[str | None, typer.Option(help="Name of the character.")] = None,
    persona: Annotated[str | None, typer.Option(help="Description of the persona.")] = None,
    tokenizer: Annotated[
        str,
        typer.Option(metavar="NAME|FILE", help="Encoding or model, or path of a tokenizer.json."),
    ] = DEFAULT_TOKENIZER,
    release: Annotated[
        str | None,
        typer.Option("--version", metavar="RELEASE", help="SillyTavern 1.19 (default) or 1.18."),
    ] = None,
    token_counting: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Count as sillytavern-1.19, sillytavern-1.18 or plain; by default as --version.",
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ignore the timed effects stored in the chat file.")
    ] = False,
    watch_turns: Annotated[
        bool, typer.Option("--watch-turns", help="Scan after every message of the chat.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the answer as JSON; with --watch-turns, one line per turn."
        ),
    ] = False,
) -> None:
    """Scan a chat as SillyTavern does before the next reply, and show why each entry is active."""
    options = ScanOptions(
        books={
            "global": book or [],
            "chat": chat_book or [],
            "persona": persona_book or [],
            "character": character_book or [],
        },
        card=card,
        chat=chat,
        query=query,
        settings=settings,
        overrides={
            "world_info_depth": depth,
            "world_info_budget": budget,
            "world_info_recursive": recursion,
            "world_info_case_sensitive": case,
            "world_info_match_whole_words": whole_words,
            "version": release,
            "token_counting": token_counting,
        },
        user=user,
        char=char,
        persona=persona,
        context_tokens=context,
        seed=seed,
        trigger=trigger,
        fresh=fresh or watch_turns,
    )
    loaded = load_scan(options)
    show = _watch if watch_turns else _scan
    show(loaded, counter(tokenizer), as_json=as_json)
    for warning in _warnings(loaded):
        say(f"{'query' if chat is None else chat.name}: {warning}", err=True)


def _warnings(loaded: LoadedScan) -> list[str]:
    """Return the warnings of the chat file, and one if its bound book was not given."""
    warnings = [*loaded.chat.warnings]
    bound = loaded.chat.book
    if bound is not None and all(each.world.name != bound for each in loaded.library.books):
        warnings.append(f"its book {bound} was not given; pass it with --chat-book")
    return warnings


def _scan(loaded: LoadedScan, tokens: TokenCounter, *, as_json: bool) -> None:
    answer = activate(loaded.library, loaded.request, counter=tokens)
    if as_json:
        print_json(answer.to_json())
        return
    print_parts(*trace_parts(loaded.library, loaded.request, answer))
    if loaded.chat.hidden:
        say(f"Hidden messages, not scanned: {loaded.chat.hidden}.")
    if loaded.request.timed_state:
        say("Timed effects of the chat file were applied; --fresh ignores them.")


def _watch(loaded: LoadedScan, tokens: TokenCounter, *, as_json: bool) -> None:
    """Print the turns of a chat, which begins without timed effects, as every chat does."""
    entries = (entry for book in loaded.library.books for entry in book.world.entries)
    # Delayed entries, which the table shows, are only in the full ledger.
    needs_ledger = as_json or any(entry.delay is not None for entry in entries)
    request = loaded.request.model_copy(update={"explain": "full" if needs_ledger else "selected"})
    answers = replay(loaded.library, request, counter=tokens)
    if not as_json:
        print_parts(turns_table(loaded.library, loaded.request, answers))
        return
    for number, answer in enumerate(answers, 1):
        print_json(b'{"turn":%d,"response":%b}' % (number, answer.to_json()))
