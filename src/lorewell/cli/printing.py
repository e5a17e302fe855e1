"""All that the program prints. Nothing else of it writes to stdout or stderr.

What comes from outside, such as the text of a book, a file's name or an answer of a service, is
never markup, and never reaches a terminal with its hidden characters (`lorewell.model.plain`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from lorewell.model.base import Contract
from lorewell.model.plain import plain, plain_json, plain_lines


class _PlainConsole(Console):
    """A console whose texts hold no hidden characters, even where a table forgot it."""

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401  Rich's own
        """Return a string, such as a cell of a table, as it is laid out."""
        return super().render_str(plain_lines(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is written; only the console's own control codes are left as they are."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else plain_lines(text), style, control)


def new_console(*, stderr: bool = False) -> Console:
    """Return a console that shows text as it is: no markup, no `:names:` of emoji."""
    return _PlainConsole(stderr=stderr, markup=False, emoji=False, highlight=False)


def print_parts(*parts: RenderableType) -> None:
    """Print tables and texts for a person."""
    console = new_console()
    for part in parts:
        console.print(part)


def say(text: str, *, err: bool = False) -> None:
    """Print a line, however long, to stdout or stderr."""
    typer.echo(plain(text), err=err)


def write(text: str) -> None:
    """Print a text in its own lines, without an end of line."""
    typer.echo(plain_lines(text), nl=False)


def print_json(document: Contract | str | bytes) -> None:
    """Print a JSON document and an end of line.

    On a terminal its hidden characters are JSON's escapes. Elsewhere the bytes are what they are.
    """
    text = document.model_dump_json() if isinstance(document, Contract) else document
    if sys.stdout.isatty():
        text = plain_json(text.decode() if isinstance(text, bytes) else text)
    typer.echo(text)
