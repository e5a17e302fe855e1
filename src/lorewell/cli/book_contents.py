"""The contents of a book as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lorewell.cli.import_tables import notice_tables, summary
from lorewell.cli.tables import new_table, placed
from lorewell.engine.native.compile import compile_book
from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.context import cost_of
from lorewell.engine.tokens import TokenCounter
from lorewell.errors import InvalidDependencyError
from lorewell.formats import ImportedBook, open_book
from lorewell.formats.faults import naming
from lorewell.insight import diagnostics
from lorewell.model import Entry
from lorewell.model.imports import ImportNotice
from lorewell.model.plain import plain

MAX_KEYS = 12  # of one entry in a table; the JSON lists them all


@dataclass(frozen=True, slots=True, kw_only=True)
class BookContents:
    """A book as `lorewell show` presents it.

    Attributes:
        found: the book and the report of its import.
        compiled: the compiled book, whose diagnostics are shown.
        tokens: of each entry, in stored order. Macros are counted as written, so an entry with
            `{{char}}` costs more or less once that has a value.
        texts: the part of them that an entry's text takes without a wrapper.
    """

    found: ImportedBook
    compiled: CompiledBook
    tokens: tuple[int, ...]
    texts: tuple[int, ...]

    def rows(self) -> Iterator[tuple[CompiledEntry, int, int]]:
        """Yield each entry with its tokens and those of its text."""
        return zip(self.compiled.entries, self.tokens, self.texts, strict=True)

    def to_json(self) -> bytes:
        """Return the contents as JSON, without the entries' texts."""
        report = orjson.loads(self.found.report.model_dump_json())
        return orjson.dumps(
            {
                "name": self.found.book.name,
                "description": self.found.book.description,
                "book_id": self.compiled.book_id,
                "content_hash": self.compiled.content_hash,
                "tokenizer": self.compiled.counter.name,
                "token_count": sum(self.tokens),
                "text_tokens": sum(self.texts),
                "entries": [
                    {**_entry_members(entry), "tokens": tokens, "text_tokens": text}
                    for entry, tokens, text in self.rows()
                ],
                "diagnostics": [note._asdict() for note in diagnostics(self.compiled)],
                "import_report": report,
            }
        )


def load_contents(path: Path, counter: TokenCounter) -> BookContents:
    """Return the contents of a file.

    Raises:
        FileTooLargeError, ImportInvalidError, ValidationFailedError, InvalidDependencyError,
            OSError: as `load_book`.
    """
    found = open_book(path)
    try:
        compiled = compile_book(found.book, counter=counter)
    except InvalidDependencyError as error:
        problem = f"{path.name} has entries whose requires can't be met"
        raise naming(error, problem, file=path.name) from error
    tokens = tuple(_tokens(entry, counter) for entry in compiled.entries)
    texts = tuple(cost_of(None, entry.spec.content, counter) for entry in compiled.entries)
    return BookContents(found=found, compiled=compiled, tokens=tokens, texts=texts)


def _tokens(entry: CompiledEntry, counter: TokenCounter) -> int:
    if entry.cost is not None:
        return entry.cost
    return cost_of(entry.tag, entry.spec.content, counter)


def _entry_members(entry: CompiledEntry) -> Mapping[str, object]:
    spec = entry.spec
    return {
        "id": spec.id,
        "title": spec.title,
        "enabled": spec.enabled,
        "constant": spec.constant,
        "required": spec.required,
        "kind": spec.kind,
        "runtime_requirements": spec.runtime_requirements,
        "keys": spec.keys,
        "secondary_keys": spec.secondary_keys,
        "position": spec.position,
        "depth": spec.depth,
        "role": spec.role,
        "outlet_name": spec.outlet_name,
        "order": spec.order,
        "priority": spec.priority,
    }


def import_json(found: ImportedBook) -> str:
    """Return the book and its report as JSON; the book is a valid file in Lorewell's own format."""
    book, report = found.book.model_dump_json(), found.report.model_dump_json()
    return f'{{"book":{book},"import_report":{report}}}'


def contents_tables(contents: BookContents) -> list[RenderableType]:
    """Return the printed contents of a book: a summary, its entries, and warnings."""
    total, text = sum(contents.tokens), sum(contents.texts)
    about = f"{total} tokens ({plain(contents.compiled.counter.name)})"
    if total:
        about += f", text {text} and wrappers {total - text}"
    if any(entry.cost is None for entry in contents.compiled.entries):
        about += "; ~ counts macros unexpanded"
    parts = [summary(contents.found, [about])]
    if contents.compiled.entries:
        parts.append(_entry_table(contents))
    notes = [
        ImportNotice(entry_id=note.entry_id, code=note.code, message=note.message)
        for note in diagnostics(contents.compiled)
    ]
    parts.extend(notice_tables("Import warnings", contents.found.report.warnings))
    parts.extend(notice_tables("Book warnings", notes))
    return parts


def _entry_table(contents: BookContents) -> Table:
    table = new_table("Entries")
    table.add_column("Entry", overflow="fold", ratio=3)
    table.add_column("State", overflow="fold", min_width=8)
    table.add_column("Keys", overflow="fold", ratio=3)
    table.add_column("Place", overflow="fold", min_width=16)
    for column in ("Tokens", "Text", "Wrapper"):
        table.add_column(column, justify="right", no_wrap=True)
    for entry, tokens, text in contents.rows():
        spec = entry.spec
        name = Text(plain(spec.id), style="bold")
        if spec.title:
            name.append(f"\n{plain(spec.title)}", style="not bold")
        about = "" if entry.cost is not None else "~"
        cells = (f"{about}{tokens}", f"{about}{text}", str(tokens - text))
        table.add_row(name, _state(spec), _keys(spec), Text(placed(spec)), *cells)
    return table


def _state(spec: Entry) -> Text:
    """Return the properties that keep an entry out, or select it without a key."""
    state = Text()
    if not spec.enabled:
        state.append("disabled\n", style="yellow")
    if spec.required:
        state.append("required\n", style="green")
    if spec.constant:
        state.append("constant\n", style="green")
    if spec.runtime_requirements:
        state.append(f"needs {plain(', '.join(spec.runtime_requirements))}\n", style="yellow")
    if spec.kind != "lore":
        state.append(spec.kind, style="dim")
    state.rstrip()
    return state


def _keys(spec: Entry) -> Text:
    keys = Text(_listed(spec.keys))
    if spec.selective and spec.secondary_keys:
        keys.append(f"\n{spec.logic}: {_listed(spec.secondary_keys)}", style="dim")
    return keys


def _listed(keys: Sequence[str]) -> str:
    more = [f"and {len(keys) - MAX_KEYS} more"] if len(keys) > MAX_KEYS else []
    return ", ".join([*(plain(key) for key in keys[:MAX_KEYS]), *more])
