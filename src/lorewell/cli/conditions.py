"""The command that tries a condition out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, cast

import typer
from rich.cells import cell_len

from lorewell.cli.tables import plain
from lorewell.engine.conditions.trial import try_condition
from lorewell.model.condition_trial import ConditionFlaw, ConditionTrial, ConditionTried
from lorewell.model.parse import parse_json, parse_model

_BAD_TEXT = 2
_MOST_SHOWN = 200


def try_command(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The condition.")],
    *,
    table: Annotated[str, typer.Option(metavar="JSON", help="The object that it looks at.")] = "{}",
    rules: Annotated[
        str, typer.Option(metavar="native|replica", help="By which policy's rules it is read.")
    ] = "native",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole answer as JSON.")
    ] = False,
) -> None:
    """Tell whether a condition holds for some values, and why, or what is wrong with it."""
    document = {"text": text, "table": parse_json(table.encode()), "rules": rules}
    tried = try_condition(parse_model(ConditionTrial, document))
    if as_json:
        typer.echo(tried.model_dump_json())
    elif tried.flaw is not None:
        typer.echo("\n".join(_pointed(text, tried.flaw)), err=True)
    else:
        typer.echo("\n".join(_told(tried)))
    if tried.flaw is not None:
        raise typer.Exit(_BAD_TEXT)


def _pointed(text: str, flaw: ConditionFlaw) -> Iterator[str]:
    """Yield the text, and below it a mark where it is wrong, wide characters counted as two."""
    yield plain(text)
    yield f"{' ' * cell_len(plain(text[: flaw.at]))}^ {flaw.detail}"


def _told(tried: ConditionTried) -> Iterator[str]:
    yield _word(holds=tried.holds)
    yield from _branches(cast("dict[str, Any]", tried.tree), 1)


def _branches(node: dict[str, Any], level: int) -> Iterator[str]:
    indent, holds = "  " * level, _word(holds=node["holds"])
    if node["kind"] != "comparison":
        yield f"{indent}{holds:<5}  {node['kind']}"
        for part in node["parts"]:
            yield from _branches(part, level + 1)
        return
    found = "missing" if node["missing"] else json.dumps(node["found"], ensure_ascii=False)
    shown = f"tb.{node['field']} {node['operator']} {node['value']}: it is {found}"
    yield f"{indent}{holds:<5}  {plain(shown[:_MOST_SHOWN])}"


def _word(*, holds: bool) -> str:
    return "true" if holds else "false"
