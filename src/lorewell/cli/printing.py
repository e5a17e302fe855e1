"""Printing. No other module of the program writes to stdout or stderr.

Text from outside (of a book, a file name, a service) is never markup, and never reaches a terminal
with its hidden characters (`lorewell.model.plain`).
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
    """A console that escapes hidden characters, even where a table did not."""

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401  Rich's own
        """Return a string, such as a table cell, as a text to lay out."""
        return super().render_str(plain_lines(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments to write; only the console's own control codes stay unescaped."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else plain_lines(text), style, control)


def new_console(*, stderr: bool = False) -> Console:
    """Return a console that shows text as it is: no markup, no emoji `:names:`."""
    return _PlainConsole(stderr=stderr, markup=False, emoji=False, highlight=False)


def print_parts(*parts: RenderableType) -> None:
    """Print tables and texts for a person."""
    console = new_console()
    for part in parts:
        console.print(part)


def say(text: str, *, err: bool = False) -> None:
    """Print one line to stdout or stderr, without wrapping it."""
    typer.echo(plain(text), err=err)


def write(text: str) -> None:
    """Print a text as it is, without a final newline."""
    typer.echo(plain_lines(text), nl=False)


def print_json(document: Contract | str | bytes) -> None:
    """Print a JSON document and a newline.

    On a terminal hidden characters are printed as JSON escapes; elsewhere the bytes are unchanged.
    """
    text = document.model_dump_json() if isinstance(document, Contract) else document
    if sys.stdout.isatty():
        text = plain_json(text.decode() if isinstance(text, bytes) else text)
    typer.echo(text)
