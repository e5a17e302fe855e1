"""`lorewell chat`: chat with a model, and show which entries each turn injected and why."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorewell.cli.failures import describe
from lorewell.cli.library import API_KEY, DEFAULT_TENANT, TENANT, URL
from lorewell.cli.option_values import parse_options
from lorewell.cli.printing import say, write
from lorewell.cli.scene_options import SceneOptions, load_scene
from lorewell.cli.turn_lines import decision_lines, injected_lines, warning_lines
from lorewell.engine.tokens import DEFAULT_TOKENIZER, TokenCounter, counter
from lorewell.errors import LorewellError, ValidationFailedError
from lorewell.model import BindingsPut
from lorewell.model.assemble import DraftMessage
from lorewell.model.binding import PolicyChoice
from lorewell.model.parse import parse_model
from lorewell.model.plain import unfinished
from lorewell.model.prompt_settings import PROMPT_STRATEGY, PROMPT_TOKEN_BUDGET
from lorewell.model.scene import Scene
from lorewell.turn import FileLore, LoreSource, PreparedTurn, TurnError, TurnHost, TurnInput
from lorewell.turn.config import BLOCK, read_config

if TYPE_CHECKING:  # an HTTP client would slow down the other commands
    from lorewell.upstreams import ChatModel

UPSTREAM_KEY = "LOREWELL_UPSTREAM_API_KEY"
_COMMANDS = "Commands: /why lists the decision on every entry in the last turn, /quit ends."
_QUIT_COMMANDS = ("/quit", "/exit")
_PROMPT = "> "


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """The options of the command; None or empty where one was not given."""

    books: Sequence[Path]
    url: str | None
    api_key: str | None
    tenant: str
    prompt: str | None
    upstream: str | None
    model: str | None
    system: str | None
    conversation: str
    policy: PolicyChoice
    char: str | None
    user: str | None
    scene: Scene | None
    counter: TokenCounter | None
    config: dict[str, Any]


def chat_command(  # noqa: PLR0913  an option is a parameter
    *,
    book: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Book to use (repeatable).")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help=f"URL of a running service to use instead of --book; {URL} by default."),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(help=f"API key of the service; {API_KEY} by default.")
    ] = None,
    tenant: Annotated[
        str, typer.Option(envvar=TENANT, show_envvar=False, help="Tenant at the service.")
    ] = DEFAULT_TENANT,
    prompt: Annotated[
        str | None, typer.Option(metavar="ID", help="Prompt at the service whose books are used.")
    ] = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"Base URL of a server with OpenAI's API; its key is {UPSTREAM_KEY}.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the model at that server.")
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="System message.")] = None,
    conversation: Annotated[
        str,
        typer.Option(
            metavar="ID", help="Id of the conversation, which seeds rolls and keeps timed effects."
        ),
    ] = "chat",
    policy: Annotated[
        str,
        typer.Option(
            metavar="auto|native|sillytavern|replica", help="Policy whose rules the files follow."
        ),
    ] = "auto",
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="rules|hybrid",
            help="hybrid also recalls entries that rank for the input; by default as the prompt "
            f"is set, else {PROMPT_STRATEGY}.",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            help="Token budget for lore; by default as the prompt is set, else "
            f"{PROMPT_TOKEN_BUDGET}.",
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS", help="Context window of the model; a longer prompt is refused."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Encoding or model, or path of a tokenizer.json; by default as the prompt is set, "
            f"else {DEFAULT_TOKENIZER}.",
        ),
    ] = None,
    char: Annotated[str | None, typer.Option(help="Value of {{char}}.")] = None,
    user: Annotated[str | None, typer.Option(help="Value of {{user}}.")] = None,
    scene: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON file with the scene of every turn; other options override it.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON file with the object that conditions read."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Object that conditions of the form tb.name read."),
    ] = None,
) -> None:
    """Chat with a model, and show which entries each turn injected and why.

    Without --upstream a scripted model replies. Input lines can also be piped in.
    """
    config = {"strategy": strategy, "tokenBudget": budget, "contextWindow": window}
    options = ChatOptions(
        books=book or [],
        url=url if url is not None or book else os.environ.get(URL) or None,
        api_key=api_key or os.environ.get(API_KEY) or None,
        tenant=tenant,
        prompt=prompt,
        upstream=upstream,
        model=model,
        system=system,
        conversation=conversation,
        policy=parse_options(
            BindingsPut, {"bindings": (), "policy": policy}, {"policy": "--policy"}
        ).policy,
        char=char,
        user=user,
        scene=load_scene(SceneOptions(scene=scene, state=state, table=table, char=char, user=user)),
        counter=None if tokenizer is None else counter(tokenizer),
        config={name: value for name, value in config.items() if value is not None},
    )
    _check(options)
    talk(options)


def _check(options: ChatOptions) -> None:
    if bool(options.books) == (options.url is not None):
        raise ValidationFailedError("Give either --book or --url.")
    if (options.url is None) != (options.prompt is None):
        raise ValidationFailedError("--url and --prompt go together: give both or neither.")
    if (options.upstream is None) != (options.model is None):
        raise ValidationFailedError("--upstream and --model go together: give both or neither.")


def talk(options: ChatOptions) -> None:
    """Read input lines and answer them until there are no more.

    Raises:
        LorewellError: a turn failed and the input is not a terminal.
    """
    with asyncio.Runner() as runner:
        opened = _open(options)
        chat = runner.run(opened.__aenter__())
        try:
            _answer_all(chat, runner)
        finally:
            runner.run(opened.__aexit__(None, None, None))


def _answer_all(chat: TerminalChat, runner: asyncio.Runner) -> None:
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        say(f"{chat.introduction} {_COMMANDS}")
    for line in _lines(is_terminal=is_terminal):
        if line in _QUIT_COMMANDS:
            return
        try:
            _handle_line(chat, runner, line)
        except LorewellError as error:
            if not is_terminal:
                raise (error.cause if isinstance(error, TurnError) else error) from error
            say(f"lorewell: {describe(error)}", err=True)
        except KeyboardInterrupt:  # ends this reply, not the chat
            if not is_terminal:
                raise
            say("")


def _handle_line(chat: TerminalChat, runner: asyncio.Runner, line: str) -> None:
    if line == "/why":
        for decision in decision_lines(chat.last):
            say(decision)
    elif line:
        runner.run(chat.answer(line))


def _lines(*, is_terminal: bool) -> Iterator[str]:
    """Yield the input lines until the input ends or Ctrl+C is pressed."""
    while True:
        if is_terminal:
            write(_PROMPT)
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            return
        if not line:
            return
        yield line.strip()


@asynccontextmanager
async def _open(options: ChatOptions) -> AsyncIterator[TerminalChat]:
    document = {
        "tenantId": options.tenant,
        "serviceUrl": options.url,
        "apiKey": options.api_key,
        **options.config,
    }
    config = read_config({BLOCK: document})
    model, tokens = _model(options), options.counter or counter()
    try:
        if config is None or options.url is None:
            lore: LoreSource = FileLore(options.books, policy=options.policy, counter=tokens)
            yield TerminalChat(options, TurnHost(config, lore, counter=tokens), model)
            return
        from lorewell.client import connect  # noqa: PLC0415  see the import of ChatModel

        async with connect(config) as lore:
            yield TerminalChat(options, TurnHost(config, lore, counter=tokens), model)
    finally:
        await model.close()


def _model(options: ChatOptions) -> ChatModel:
    from lorewell.upstreams import OpenAiChat, ScriptedModel, UpstreamOptions  # noqa: PLC0415

    if options.upstream is None or options.model is None:
        return ScriptedModel()
    return OpenAiChat(
        UpstreamOptions(
            url=options.upstream, model=options.model, api_key=os.environ.get(UPSTREAM_KEY, "")
        )
    )


@dataclass(slots=True)
class TerminalChat:
    """A chat in a terminal: its messages so far, and the host and model of the next turn."""

    options: ChatOptions
    host: TurnHost
    model: ChatModel
    history: list[DraftMessage] = field(default_factory=list)
    last: PreparedTurn | None = None

    @property
    def introduction(self) -> str:
        """The books and the model of the chat, in a line."""
        where = self.options.url or ", ".join(path.name for path in self.options.books)
        return f"Books: {where}. Model: {self.model.model}."

    async def answer(self, text: str) -> None:
        """Print the reply to an input and the injected entries. A failed turn is not kept.

        Raises:
            TurnError: the turn failed.
            UpstreamError: the model failed.
        """
        user_input = _message("input", "user", text)
        async with self.host.begin(self._turn_input(user_input)) as turn:
            prepared = self.last = await turn.prepare()
            reply = await self._print_reply(prepared)
        for line in (*injected_lines(prepared, self.host.counter), *warning_lines(prepared)):
            say(f"  {line}")
        self.history += [_message("chat", "user", text), _message("chat", "assistant", reply)]

    async def _print_reply(self, prepared: PreparedTurn) -> str:
        pieces, rest = [], ""
        async for delta in self.model.stream(prepared.messages):
            pieces.append(delta.content)
            rest += delta.content
            end = unfinished(rest)
            write(rest[:end])
            rest = rest[end:]
        write(f"{rest}\n")
        return "".join(pieces)

    def _turn_input(self, user_input: DraftMessage) -> TurnInput:
        options, system = self.options, self.options.system
        opening = [] if system is None else [_message("character", "system", system)]
        return TurnInput(
            request_id=f"{options.conversation}:{len(self.history) // 2 + 1}",
            user_id=options.user or "user",
            conversation_id=options.conversation,
            prompt_id=options.prompt or "chat",
            draft=[*opening, *self.history, user_input],
            char=options.char if options.scene is None else None,
            user=options.user if options.scene is None else None,
            scene=options.scene,
            strategy=options.config.get("strategy"),  # an option wins over the prompt's settings
            token_budget=options.config.get("tokenBudget"),
            counter=options.counter,
        )


def _message(kind: str, role: str, content: str) -> DraftMessage:
    document = {"kind": kind, "message": {"role": role, "content": content}}
    return parse_model(DraftMessage, document)
