"""`lorewell replay`, `diff` and `plan`: whole chats through books."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import orjson
import typer

from lorewell.cli.listings import diff_table
from lorewell.cli.printing import print_json, print_parts, say
from lorewell.cli.replay_inputs import SideOptions, load_side
from lorewell.cli.replay_tables import diff_parts, plan_parts, replay_parts
from lorewell.engine.tokens import DEFAULT_TOKENIZER, counter
from lorewell.errors import ValidationFailedError
from lorewell.formats import open_book
from lorewell.formats.chats import ChatTranscript, load_spoken
from lorewell.insight.books import compare_books
from lorewell.insight.chats import turns_after
from lorewell.insight.compare import compare_sides
from lorewell.insight.plan import plan_side
from lorewell.insight.stories import replay_side, tell
from lorewell.model.chat_replay import ReplayStep

DIFFERS = 8
"""The exit code of `lorewell diff --exit-code` if anything is different."""

_Chat = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="Chat: of SillyTavern (.jsonl), a JSON list, or OpenAI messages."
    ),
]
_Books = Annotated[
    list[Path], typer.Option("--book", metavar="FILE", help="Book to use (repeatable).")
]
_Policy = Annotated[
    str,
    typer.Option(
        metavar="auto|native|sillytavern|replica",
        help="Policy; auto is the one that the book was written for.",
    ),
]
_Budget = Annotated[
    int | None, typer.Option(metavar="TOKENS", help="Token budget of each turn; 2400 by default.")
]
_Settings = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JSON file with members of the policy's request."),
]
_Every = Annotated[
    bool,
    typer.Option(
        "--every-message", help="A turn after every message, not only after those of the user."
    ),
]
_Seed = Annotated[str | None, typer.Option(help="Seed of all turns.")]
_Tokenizer = Annotated[
    str, typer.Option(metavar="NAME|FILE", help="Encoding or model, or path of a tokenizer.json.")
]
_User = Annotated[str | None, typer.Option(help="Value of {{user}}; by default from the chat.")]
_Char = Annotated[str | None, typer.Option(help="Value of {{char}}; by default from the chat.")]


def replay_command(  # noqa: PLR0913  an option is a parameter
    *,
    book: _Books,
    chat: _Chat,
    policy: _Policy = "auto",
    budget: _Budget = None,
    settings: _Settings = None,
    every_message: _Every = False,
    seed: _Seed = None,
    tokenizer: _Tokenizer = DEFAULT_TOKENIZER,
    user: _User = None,
    char: _Char = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each turn, then the entries.")
    ] = False,
) -> None:
    """Run a whole chat through books, and show what each turn adds and each entry does."""
    options = SideOptions(
        books=book,
        policy=policy,
        budget_tokens=budget,
        settings=settings,
        seed=seed,
        user=user,
        char=char,
    )
    spoken = load_spoken(chat)
    side = load_side(options, spoken, counter(tokenizer))
    turns = _turns(spoken, every_message=every_message)
    if not as_json:
        print_parts(*replay_parts(replay_side(side, turns), side.titles))
    else:
        steps: list[ReplayStep] = []
        for step in side.steps(turns):
            print_json(step.to_json())
            steps.append(step)
        print_json(orjson.dumps({"policy": side.policy, "entries": tell(side, steps)}))
    _warn(chat, spoken)


def diff_command(  # noqa: PLR0913  an option is a parameter
    first: Annotated[Path, typer.Argument(metavar="A", help="Book of the first side.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Book of the second side.")],
    *,
    chat: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Chat, as for `replay`; without it the books alone."),
    ] = None,
    policy: _Policy = "auto",
    policy_b: Annotated[
        str | None,
        typer.Option(metavar="POLICY", help="Policy of the second side, if it is another one."),
    ] = None,
    budget: _Budget = None,
    budget_b: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="Token budget of the second side.")
    ] = None,
    settings: _Settings = None,
    settings_b: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings of the second side.")
    ] = None,
    every_message: _Every = False,
    seed: _Seed = None,
    tokenizer: _Tokenizer = DEFAULT_TOKENIZER,
    user: _User = None,
    char: _Char = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help=f"Exit with {DIFFERS} if any turn changes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the difference as JSON.")] = False,
) -> None:
    """Run a chat through two books, and show which turns and entries change.

    The same book can be given twice, with another policy, budget or settings on the second side.
    Without a chat, show what differs between the books, field by field.
    """
    if chat is None:
        _print_difference(first, second, exit_code=exit_code, as_json=as_json)
        return
    old = SideOptions(
        books=[first],
        policy=policy,
        budget_tokens=budget,
        settings=settings,
        seed=seed,
        user=user,
        char=char,
    )
    new = replace(
        old,
        books=[second],
        policy=policy if policy_b is None else policy_b,
        budget_tokens=budget if budget_b is None else budget_b,
        settings=settings if settings_b is None else settings_b,
    )
    spoken, tokens = load_spoken(chat), counter(tokenizer)
    left, right = (load_side(each, spoken, tokens) for each in (old, new))
    found = compare_sides(left, right, _turns(spoken, every_message=every_message))
    if as_json:
        print_json(found.to_json())
    else:
        print_parts(*diff_parts(found, {**left.titles, **right.titles}))
    _warn(chat, spoken)
    if exit_code and found.changed:
        raise typer.Exit(DIFFERS)


def plan_command(  # noqa: PLR0913  an option is a parameter
    *,
    book: _Books,
    chat: _Chat,
    policy: _Policy = "auto",
    budget: _Budget = None,
    settings: _Settings = None,
    every_message: _Every = False,
    seed: _Seed = None,
    tokenizer: _Tokenizer = DEFAULT_TOKENIZER,
    user: _User = None,
    char: _Char = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Show what each entry costs over a chat, and what another token budget would change."""
    options = SideOptions(
        books=book,
        policy=policy,
        budget_tokens=budget,
        settings=settings,
        seed=seed,
        user=user,
        char=char,
    )
    spoken = load_spoken(chat)
    side = load_side(options, spoken, counter(tokenizer))
    plan = plan_side(side, _turns(spoken, every_message=every_message))
    if as_json:
        print_json(plan.to_json())
    else:
        print_parts(*plan_parts(plan))
    _warn(chat, spoken)


def _print_difference(first: Path, second: Path, *, exit_code: bool, as_json: bool) -> None:
    old, new = (open_book(path).book.model_dump(mode="json") for path in (first, second))
    found = compare_books(old, new, values=True)
    is_same = not (found.added or found.removed or found.book_fields or found.changed)
    if as_json:
        print_json(found)
    elif is_same:
        say("The books are the same.")
    else:
        print_parts(diff_table(found))
    if exit_code and not is_same:
        raise typer.Exit(DIFFERS)


def _turns(chat: ChatTranscript, *, every_message: bool) -> list[int]:
    turns = turns_after(chat.lines, "every_message" if every_message else "user_messages")
    if not turns:
        raise ValidationFailedError("The chat has no turn: no message of the user has a text.")
    return turns


def _warn(path: Path, chat: ChatTranscript) -> None:
    for warning in chat.warnings:
        say(f"{path.name}: {warning}", err=True)
