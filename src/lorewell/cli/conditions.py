"""The command that evaluates a condition or key expression."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, cast

import typer
from rich.cells import cell_len

from lorewell.cli.option_values import parse_json_option, parse_options
from lorewell.cli.printing import print_json, say
from lorewell.engine.conditions.trial import try_condition
from lorewell.model.condition_trial import ConditionFlaw, ConditionTrial, ConditionTried
from lorewell.model.plain import plain

_FLAW_EXIT_CODE = 2
_MAX_LINE_CHARS = 200


def try_command(  # noqa: PLR0913  an option is a parameter
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Condition or key expression.")],
    *,
    table: Annotated[
        str, typer.Option(metavar="JSON", help="Object that the condition reads.")
    ] = "{}",
    rules: Annotated[
        str,
        typer.Option(
            metavar="native|replica|keys",
            help="Policy whose condition syntax applies; keys for a key expression.",
        ),
    ] = "native",
    message: Annotated[
        str, typer.Option(metavar="TEXT", help="Text to search with a key expression.")
    ] = "",
    case_sensitive: Annotated[
        bool, typer.Option("--case-sensitive", help="Match keys case-sensitively.")
    ] = False,
    whole_words: Annotated[
        bool, typer.Option("--whole-words", help="Match whole words only.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole answer as JSON.")
    ] = False,
) -> None:
    """Evaluate a condition or key expression, and show why it holds or where it is wrong."""
    document = {
        "text": text,
        "table": parse_json_option("--table", table),
        "rules": rules,
        "message": message,
        "case_sensitive": case_sensitive,
        "match_whole_words": whole_words,
    }
    options = {"text": "TEXT", "table": "--table", "rules": "--rules", "message": "--message"}
    tried = try_condition(parse_options(ConditionTrial, document, options))
    if as_json:
        print_json(tried)
    elif tried.flaw is not None:
        for line in _flaw_lines(text, tried.flaw):
            say(line, err=True)
    else:
        for line in _result_lines(tried):
            say(line)
    if tried.flaw is not None:
        raise typer.Exit(_FLAW_EXIT_CODE)


def _flaw_lines(text: str, flaw: ConditionFlaw) -> Iterator[str]:
    """Yield the text and, below it, a mark at the flaw; wide characters take two columns."""
    yield text
    yield f"{' ' * cell_len(plain(text[: flaw.at]))}^ {flaw.detail}"


def _result_lines(tried: ConditionTried) -> Iterator[str]:
    yield _truth(holds=tried.holds)
    yield from _tree_lines(cast("dict[str, Any]", tried.tree), 1)


def _tree_lines(node: dict[str, Any], level: int) -> Iterator[str]:
    indent, holds = "  " * level, _truth(holds=node["holds"])
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
    yield f"{indent}{holds:<5}  {shown[:_MAX_LINE_CHARS]}"
    for part in node.get("parts", ()):
        yield from _tree_lines(part, level + 1)


def _truth(*, holds: bool) -> str:
    return "true" if holds else "false"
