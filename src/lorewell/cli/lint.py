"""`lorewell lint`: mistakes in books, and their fixes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, cast, get_args

import orjson
import typer

from lorewell.cli.output_files import write_file
from lorewell.cli.printing import print_json, say
from lorewell.engine.tokens import DEFAULT_TOKENIZER, TokenCounter, counter
from lorewell.errors import Fault, ImportInvalidError, ValidationFailedError
from lorewell.formats import ImportedBook
from lorewell.formats.files import load_json, read_bytes
from lorewell.formats.loading import open_bytes
from lorewell.formats.rewriting import rewrite
from lorewell.insight.lint import lint, policy_of
from lorewell.insight.lint.fixing import fix
from lorewell.insight.lint.linting import PolicyRequest, read_request
from lorewell.insight.lint.sarif import to_sarif
from lorewell.model import BookCreate
from lorewell.model.binding import PolicyChoice
from lorewell.model.lint import Finding, Severity

_FORMATS = ("text", "json", "sarif")
_FOUND_EXIT_CODE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Linter:
    """The options that all files share."""

    books: Sequence[ImportedBook]
    policy: PolicyChoice
    request: object
    state: object
    select: Sequence[str]
    counter: TokenCounter

    def find(self, number: int, book: BookCreate) -> tuple[Finding, ...]:
        """Return the findings of a file's book."""
        others = [each.book for at, each in enumerate(self.books) if at != number]
        return lint(
            book,
            policy=self.policy,
            request=self._request(book),
            others=others,
            select=self.select,
            counter=self.counter,
        )

    def _request(self, book: BookCreate) -> PolicyRequest | None:
        if self.request is None and self.state is None:
            return None
        return read_request(policy_of(book, self.policy), self.request, state=self.state)


def lint_command(  # noqa: PLR0913  an option is a parameter
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Lorebooks, or cards that hold one."),
    ],
    *,
    fix_files: Annotated[
        bool, typer.Option("--fix", help="Apply all safe fixes to the files.")
    ] = False,
    form: Annotated[
        str, typer.Option("--format", metavar="|".join(_FORMATS), help="Format of the findings.")
    ] = "text",
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE", help="Code, name, or beginning of codes to report (repeatable)."
        ),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="|".join(get_args(PolicyChoice)),
            help="Policy that the books are used with; auto chooses by their format.",
        ),
    ] = "auto",
    request: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON file with a request of that policy: settings, budget, state."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON file with the object that conditions read."),
    ] = None,
    tokenizer: Annotated[
        str,
        typer.Option(metavar="NAME|FILE", help="Encoding or model, or path of a tokenizer.json."),
    ] = DEFAULT_TOKENIZER,
) -> None:
    """Find mistakes in books: keys that can't match, entries that never fire, costs, and more.

    Files given together are also compared with each other. The exit code is 1 if there is an error
    or a warning, else 0.
    """
    _check_choice(form, _FORMATS, "--format")
    _check_choice(policy, get_args(PolicyChoice), "--policy")
    contents = [read_bytes(path) for path in files]
    books = [_opened(data, path.name) for path, data in zip(files, contents, strict=True)]
    linter = _Linter(
        books=books,
        policy=cast("PolicyChoice", policy),
        request=None if request is None else load_json(request),
        state=None if state is None else load_json(state),
        select=select or (),
        counter=counter(tokenizer),
    )
    results: list[tuple[Path, Sequence[Finding]]] = []
    for number, (path, found) in enumerate(zip(files, books, strict=True)):
        if fix_files:
            book, findings = fix(found.book, partial(linter.find, number))
            if book is not found.book:
                write_file(path, rewrite(found, book, contents[number]))
        else:
            findings = linter.find(number, found.book)
        results.append((path, findings))
    _print(results, form)
    if any(finding.severity != "info" for _, findings in results for finding in findings):
        raise typer.Exit(_FOUND_EXIT_CODE)


def _check_choice(value: str, choices: Sequence[str], option: str) -> None:
    if value not in choices:
        detail = f"must be one of {', '.join(choices)}"
        raise ValidationFailedError.at(Fault("", detail, parameter=option))


def _opened(data: bytes, name: str) -> ImportedBook:
    found = open_bytes(data, name=name)
    if not found.holds_book:
        raise ImportInvalidError(f"{name} is a card that holds no lorebook.", file=name)
    return found


def _print(results: Sequence[tuple[Path, Sequence[Finding]]], form: str) -> None:
    match form:
        case "json":
            findings = [
                {"file": str(path), **finding.model_dump(mode="json")}
                for path, found in results
                for finding in found
            ]
            print_json(orjson.dumps({"findings": findings}))
        case "sarif":
            named = [(path.as_posix(), found) for path, found in results]
            print_json(orjson.dumps(to_sarif(named, version=version("lorewell"))))
        case _:
            for line in _lines(results):
                say(line)


def _lines(results: Sequence[tuple[Path, Sequence[Finding]]]) -> Iterator[str]:
    found = [finding for _, findings in results for finding in findings]
    for path, findings in results:
        for each in findings:
            where = f" {each.entry_id}" if each.entry_id is not None else ""
            mark = " [fixable]" if each.fixes else ""
            yield f"{path}{where}: {each.severity} {each.code} {each.name}: {each.text}{mark}"
    if not found:
        yield "Nothing found."
        return
    counts = Counter(each.severity for each in found)
    fixable = sum(bool(each.fixes) for each in found)
    more = f" --fix repairs {fixable} of them." if fixable else ""
    listed = ", ".join(f"{counts[severity]} {severity}" for severity in get_args(Severity))
    yield f"{len(found)} found: {listed}.{more}"
