"""Stored books, indexes, bindings, API keys and settings as tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lorewell.cli.tables import new_table, placed
from lorewell.model import (
    ApiKey,
    BindingSet,
    BookDiff,
    BookHead,
    CreatedBook,
    Entry,
    RevisionInfo,
    SearchResponse,
    SearchResult,
    StoredBook,
)
from lorewell.model.binding import PromptInfo
from lorewell.model.index import IndexState
from lorewell.model.plain import plain
from lorewell.model.prompt_settings import PromptSettings
from lorewell.model.records import FieldChange

_MAX_KEYS = 12  # of one entry; the JSON lists them all
_MAX_EXCERPT_CHARS = 100
_MAX_VALUE_CHARS = 300
# Not wrapped in a narrow terminal: ids, which are copied from here, and short words.
_UNWRAPPED = frozenset({"Book", "Key", "Variable", "Revision", "Status", "Chunks"})
_SECONDS = len("2026-01-01T00:00:00")


class Setting(Protocol):
    """A setting, as the table shows it."""

    @property
    def env(self) -> str:
        """The environment variable that sets it."""

    @property
    def default(self) -> str:
        """Its value if the variable is unset."""

    @property
    def unit(self) -> str | None:
        """The unit of its value."""

    @property
    def help(self) -> str:
        """Its meaning."""


def created_table(created: Iterable[tuple[CreatedBook, str]]) -> Table:
    """Return a table of newly stored books, with their names."""
    table = _table("Stored", "Book", "Revision", "Entries", "Name")
    for book, name in created:
        count = str(book.import_report.entry_count)
        table.add_row(book.book_id, str(book.revision), count, _cell(name))
    return table


def books_table(heads: Iterable[BookHead]) -> Table:
    """Return a table of books with their latest revisions."""
    table = _table("Books", "Book", "Revision", "Changed", "Name")
    for head in heads:
        name = _cell(head.name)
        if head.deleted_at is not None:
            name.append(" (deleted)", style="yellow")
        table.add_row(head.book_id, str(head.latest_revision), _time(head.updated_at), name)
    return table


def stored_parts(stored: StoredBook) -> list[RenderableType]:
    """Return a summary of a stored book, and a table of the entries of one revision."""
    head, revision = stored.book, stored.revision
    about = Text(plain(revision.name), style="bold")
    about.append(
        f"\n{head.book_id}, revision {revision.revision} of {head.latest_revision},"
        f" {_time(revision.created_at)}\n{revision.entry_count} entries,"
        f" hash {revision.content_hash}\n",
        style="not bold",
    )
    if revision.description:
        about.append(plain(revision.description) + "\n", style="not bold")
    if not revision.entries:
        return [about]
    table = _table("Entries", "Entry", "State", "Keys", "Place")
    for entry in revision.entries:
        name = Text(plain(entry.id), style="bold")
        if entry.title:
            name.append(f"\n{plain(entry.title)}", style="not bold")
        table.add_row(name, _state(entry), _cell(_listed(entry.keys)), placed(entry))
    return [about, table]


def revisions_table(revisions: Iterable[RevisionInfo]) -> Table:
    """Return a table of revisions, newest first."""
    table = _table("Revisions", "Revision", "Entries", "Stored", "Hash", "Name")
    for each in revisions:
        table.add_row(
            str(each.revision),
            str(each.entry_count),
            _time(each.created_at),
            each.content_hash[:12],
            _cell(each.name),
        )
    return table


def diff_table(diff: BookDiff) -> Table:
    """Return a table of the differences, a row for each field; it needs their values."""
    table = _table("Differences", "Change", "Entry", "Field", "Before", "After")
    for field in diff.book_values or ():
        table.add_row("book", "", *_field_cells(field))
    for name in diff.added:
        table.add_row(Text("added", style="green"), _cell(name), "", "", "")
    for name in diff.removed:
        table.add_row(Text("removed", style="red"), _cell(name), "", "", "")
    for entry in diff.changed:
        for number, field in enumerate(entry.values or ()):
            about = ("", "") if number else (Text("changed", style="yellow"), _cell(entry.id))
            table.add_row(*about, *_field_cells(field))
    return table


def _field_cells(field: FieldChange) -> Iterator[Text]:
    """Yield the name of a field and both its values: texts as they are, others as JSON."""
    yield _cell(field.name)
    for value in (field.before, field.after):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield _cell(text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}…")


def bindings_parts(bound: BindingSet) -> list[RenderableType]:
    """Return the policy and the settings of a prompt, and a table of its books, in order."""
    about = Text(plain(f"{bound.prompt_id}: policy {bound.policy}, books: {len(bound.bindings)}"))
    parts: list[RenderableType] = [about, *_settings_lines(bound.settings)]
    if not bound.bindings:
        return parts
    table = _table("Bindings", "Book", "Revision", "Source", "Position", "State")
    for binding in sorted(bound.bindings, key=lambda each: each.position):
        revision = "latest" if binding.revision is None else str(binding.revision)
        state = Text("enabled" if binding.enabled else "disabled")
        position = str(binding.position)
        table.add_row(_cell(binding.book_id), revision, binding.source, position, state)
    return [*parts, table]


def prompts_table(prompts: Iterable[PromptInfo]) -> Table:
    """Return a table of prompts with their policies and the number of their books."""
    table = _table("Prompts", "Policy", "Books", "Name")
    for prompt in prompts:
        table.add_row(prompt.policy, str(prompt.book_count), _cell(prompt.prompt_id))
    return table


def _settings_lines(settings: PromptSettings) -> Iterator[Text]:
    """Yield a line for each setting: its policy if it has one, its name and its value as JSON."""
    for name, value in settings.model_dump(mode="json").items():
        named = value.items() if isinstance(value, dict) else [("", value)]
        for own, each in named:
            yield Text(
                plain(f"{name} {own}".rstrip() + f" = {json.dumps(each, ensure_ascii=False)}")
            )


def indexes_table(states: Iterable[IndexState], names: Mapping[str, str]) -> Table:
    """Return a table of indexes and their progress; `names` holds the book names by id."""
    table = _table("Indexes", "Book", "Revision", "Status", "Chunks", "Name")
    for each in states:
        status = "unusable" if each.status == "ready" and not each.usable else each.status
        done = "" if each.done == each.chunk_count else f"{each.done}/"
        name = _cell(names.get(each.book_id, ""))
        chunks = "" if status == "absent" else f"{done}{each.chunk_count}"
        table.add_row(
            each.book_id,
            str(each.revision),
            Text(status, style="green" if each.usable else "yellow"),
            chunks,
            name,
        )
    return table


def index_notes(states: Sequence[IndexState], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each failed index, and one if some are unusable."""
    for each in states:
        if each.error is not None:
            name = names.get(each.book_id, each.book_id)
            yield f"{name}, revision {each.revision}: {each.error}"
        if each.quiet:
            name = names.get(each.book_id, each.book_id)
            reached = ", ".join(
                f"{language} {scale.mean:.3f} ± {scale.deviation:.3f}"
                for language, scale in each.quiet.items()
            )
            yield f"{name}, revision {each.revision}: texts that need no lore reach {reached}"
    if any(each.status == "ready" and not each.usable for each in states):
        yield "unusable: built with another embedder or version than the current one"


def results_table(found: SearchResponse) -> Table:
    """Return a table of search results, best first."""
    table = new_table("Found")
    for name in ("Score", "Words", "Meaning"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("Entry", overflow="fold", ratio=1)
    for each in found.results:
        scores = (each.score, each.lexical_score, each.vector_score)
        cells = ["" if score is None else f"{score:.4f}" for score in scores]
        table.add_row(*cells, _result_cell(each))
    return table


def _result_cell(result: SearchResult) -> Text:
    cell = Text(plain(result.title or result.entry_id), style="bold")
    if not result.enabled:
        cell.append(" (disabled)", style="yellow")
    cell.append(f"\n{plain(result.id)}\n", style="not bold dim")
    excerpt = result.excerpt[:_MAX_EXCERPT_CHARS]
    more = "…" if len(result.excerpt) > _MAX_EXCERPT_CHARS else ""
    return cell.append(plain(" ".join(excerpt.split())) + more, style="not bold")


def keys_table(keys: Iterable[ApiKey]) -> Table:
    """Return a table of API keys, without their secrets."""
    table = _table("API keys", "Key", "Tenants", "Scopes", "Created", "Name")
    for key in keys:
        name = _cell(key.name)
        if key.revoked_at is not None:
            name.append(f" (revoked {_time(key.revoked_at)})", style="yellow")
        tenants, scopes = _cell(", ".join(key.tenants)), ", ".join(key.scopes)
        table.add_row(key.id, tenants, scopes, _time(key.created_at), name)
    return table


def settings_table(settings: Iterable[Setting]) -> Table:
    """Return a table of settings: variable, default, unit and meaning."""
    table = _table("Settings", "Variable", "Default", "Unit", "Meaning")
    for each in settings:
        table.add_row(each.env, _cell(each.default), each.unit or "", _cell(each.help))
    return table


def _table(title: str, *columns: str) -> Table:
    table = new_table(title)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in _UNWRAPPED)
    return table


def _cell(text: str) -> Text:
    return Text(plain(text))


def _time(stamp: str) -> str:
    """Return a time to the second, in UTC."""
    return plain(stamp[:_SECONDS].replace("T", " "))


def _listed(keys: Sequence[str]) -> str:
    more = [f"and {len(keys) - _MAX_KEYS} more"] if len(keys) > _MAX_KEYS else []
    return ", ".join([*keys[:_MAX_KEYS], *more])


def _state(entry: Entry) -> Text:
    words = [
        *([] if entry.enabled else ["disabled"]),
        *(["required"] if entry.required else []),
        *(["constant"] if entry.constant else []),
        *(["blocked"] if entry.runtime_requirements else []),
    ]
    return Text("\n".join(words))
