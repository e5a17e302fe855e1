"""The command that tries a condition or key expression out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, cast

import typer
from rich.cells import cell_len

from lorewell.cli.printing import print_json, say
from lorewell.engine.conditions.trial import try_condition
from lorewell.model.condition_trial import ConditionFlaw, ConditionTrial, ConditionTried
from lorewell.model.parse import parse_json, parse_model
from lorewell.model.plain import plain

_BAD_TEXT = 2
_MOST_SHOWN = 200


def try_command(  # noqa: PLR0913  an option is a parameter
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The condition, or key expression.")],
    *,
    table: Annotated[str, typer.Option(metavar="JSON", help="The object that it looks at.")] = "{}",
    rules: Annotated[
        str,
        typer.Option(
            metavar="native|replica|keys",
            help="By which policy's rules the condition is read; keys: it is a key expression.",
        ),
    ] = "native",
    message: Annotated[
        str, typer.Option(metavar="TEXT", help="The text in which a key expression is looked for.")
    ] = "",
    case_sensitive: Annotated[
        bool, typer.Option("--case-sensitive", help="Case counts in keys.")
    ] = False,
    whole_words: Annotated[
        bool, typer.Option("--whole-words", help="Keys must stand alone.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole answer as JSON.")
    ] = False,
) -> None:
    """Tell whether a condition or key expression holds, and why, or what is wrong with it."""
    document = {
        "text": text,
        "table": parse_json(table.encode()),
        "rules": rules,
        "message": message,
        "case_sensitive": case_sensitive,
        "match_whole_words": whole_words,
    }
    tried = try_condition(parse_model(ConditionTrial, document))
    if as_json:
        print_json(tried)
    elif tried.flaw is not None:
        for line in _pointed(text, tried.flaw):
            say(line, err=True)
    else:
        for line in _told(tried):
            say(line)
    if tried.flaw is not None:
        raise typer.Exit(_BAD_TEXT)


def _pointed(text: str, flaw: ConditionFlaw) -> Iterator[str]:
    """Yield the text, and below it a mark where it is wrong, wide characters counted as two."""
    yield text
    yield f"{' ' * cell_len(plain(text[: flaw.at]))}^ {flaw.detail}"


def _told(tried: ConditionTried) -> Iterator[str]:
    yield _word(holds=tried.holds)
    yield from _branches(cast("dict[str, Any]", tried.tree), 1)


def _branches(node: dict[str, Any], level: int) -> Iterator[str]:
    indent, holds = "  " * level, _word(holds=node["holds"])
    match node["kind"]:
        case "comparison":
            found = "missing" if node["missing"] else json.dumps(node["found"], ensure_ascii=False)
            shown = f"tb.{node['field']} {node['operator']} {node['value']}: it is {found}"
        case "key":
            begin, end = node["span"] or (0, 0)
            where = f"at characters {begin} to {end}" if node["holds"] else "not found"
            shown = f"{node['key']}: {where}"
        case kind:
            shown = kind
    yield f"{indent}{holds:<5}  {shown[:_MOST_SHOWN]}"
    for part in node.get("parts", ()):
        yield from _branches(part, level + 1)


def _word(*, holds: bool) -> str:
    return "true" if holds else "false"
