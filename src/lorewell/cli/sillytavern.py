"""`lorewell sillytavern`: a chat and books by SillyTavern's own rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorewell.cli.printing import print_json, print_parts, say
from lorewell.cli.sillytavern_inputs import LoadedScan, ScanOptions, load_scan
from lorewell.cli.sillytavern_tables import trace_parts, turns_table
from lorewell.engine.sillytavern.turns import activate, replay
from lorewell.engine.tokens import DEFAULT_TOKENIZER, TokenCounter, counter

app = typer.Typer(no_args_is_help=True, help="Do with books and a chat what SillyTavern does.")

_Books = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="A book that is on everywhere; repeat.")
]


@app.callback()
def sillytavern() -> None:
    """Do with books and a chat what SillyTavern does."""


@app.command("run")
def run_command(  # noqa: PLR0913  an option is a parameter
    *,
    chat: Annotated[Path, typer.Option(metavar="FILE", help="SillyTavern's chat file, .jsonl.")],
    book: _Books = None,
    chat_book: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A book bound to the chat.")
    ] = None,
    persona_book: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A book bound to the persona.")
    ] = None,
    character_book: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A book bound to the character.")
    ] = None,
    card: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The character's card: its book, texts and file name."),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="SillyTavern's settings, as JSON.")
    ] = None,
    depth: Annotated[
        int | None, typer.Option(metavar="N", help="How many of the last messages are scanned.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Share of the context.")
    ] = None,
    context: Annotated[int, typer.Option(metavar="TOKENS", help="Size of the context.")] = 8192,
    recursion: Annotated[
        bool | None, typer.Option("--recursion/--no-recursion", help="Whether texts wake others.")
    ] = None,
    case: Annotated[
        bool | None, typer.Option("--case/--no-case", help="Whether case counts in keys.")
    ] = None,
    whole_words: Annotated[
        bool | None,
        typer.Option("--whole-words/--no-whole-words", help="Whether keys are whole words."),
    ] = None,
    trigger: Annotated[
        str, typer.Option(metavar="KIND", help="Kind of generation: normal, swipe, …")
    ] = "normal",
    seed: Annotated[str | None, typer.Option(help="What chance is drawn from.")] = None,
    user: Annotated[str | None, typer.Option(help="The user's name.")] = None,
    char: Annotated[str | None, typer.Option(help="The character's name.")] = None,
    persona: Annotated[str | None, typer.Option(help="The persona's description.")] = None,
    tokenizer: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="An encoding, or a tokenizer.json.")
    ] = DEFAULT_TOKENIZER,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Leave out the timed effects of the chat file.")
    ] = False,
    watch_turns: Annotated[
        bool, typer.Option("--watch-turns", help="Run the whole chat, message by message.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as JSON; of each turn, a line.")
    ] = False,
) -> None:
    """Scan a chat as SillyTavern does before the next reply, and tell why each entry is in."""
    options = ScanOptions(
        books={
            "global": book or [],
            "chat": chat_book or [],
            "persona": persona_book or [],
            "character": character_book or [],
        },
        card=card,
        chat=chat,
        settings=settings,
        overrides={
            "world_info_depth": depth,
            "world_info_budget": budget,
            "world_info_recursive": recursion,
            "world_info_case_sensitive": case,
            "world_info_match_whole_words": whole_words,
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
        say(f"{chat.name}: {warning}", err=True)


def _warnings(loaded: LoadedScan) -> list[str]:
    """Return what was odd about the chat, and what of it is not there."""
    told = [*loaded.chat.warnings]
    bound = loaded.chat.book
    if bound is not None and all(each.world.name != bound for each in loaded.library.books):
        told.append(f"the book {bound} is bound to it and was not given; see --chat-book")
    return told


def _scan(loaded: LoadedScan, tokens: TokenCounter, *, as_json: bool) -> None:
    answer = activate(loaded.library, loaded.request, counter=tokens)
    if as_json:
        print_json(answer.to_json())
        return
    print_parts(*trace_parts(loaded.library, loaded.request, answer))
    if loaded.chat.hidden:
        say(f"Hidden messages, which are not scanned: {loaded.chat.hidden}.")
    if loaded.request.timed_state:
        say("Timed effects of the chat file counted; --fresh leaves them out.")


def _watch(loaded: LoadedScan, tokens: TokenCounter, *, as_json: bool) -> None:
    """Print the turns of a chat; it begins without timed effects, as every chat does."""
    entries = (entry for book in loaded.library.books for entry in book.world.entries)
    # The table shows who is delayed, which the ledger alone tells; else it is not needed there.
    asked = as_json or any(entry.delay is not None for entry in entries)
    request = loaded.request.model_copy(update={"explain": "full" if asked else "selected"})
    answers = replay(loaded.library, request, counter=tokens)
    if not as_json:
        print_parts(turns_table(loaded.library, loaded.request, answers))
        return
    for number, answer in enumerate(answers, 1):
        print_json(b'{"turn":%d,"response":%b}' % (number, answer.to_json()))
