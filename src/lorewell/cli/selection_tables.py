"""A selection as tables: the selected entries with reasons, and the others with theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, get_args

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lorewell.cli.hints import name_hint
from lorewell.cli.tables import MAX_ENTRIES_A_REASON, new_table, placed, reasons_table
from lorewell.engine.native.compiled import CompiledBook
from lorewell.errors import ValidationFailedError
from lorewell.model import Block, Decision, Facts, Reason, SelectRequest, SelectResponse
from lorewell.model.decision import Recalled
from lorewell.model.plain import plain
from lorewell.model.warning import MISSING

_REASONS: tuple[Reason, ...] = get_args(Reason)
_MEANING: Mapping[str, str] = {
    "required": "always selected",
    "constant": "needs no key",
    "disabled": "switched off",
    "audience_mismatch": "meant for another audience",
    "condition_failed": "a condition is false",
    "runtime_unsupported": "needs a feature of its own program",
    "probability": "lost the roll",
    "template_missing": "a macro has no value",
    "empty_content": "has no text",
    "placement_unsupported": "the prompt lacks its place",
    "regex_invalid": "a regex key is invalid",
    "regex_timeout": "a regex key took too long",
    "regex_unsupported": "regex keys are not available",
    "not_triggered": "nothing triggered it",
    "dependency_unavailable": "an entry it requires is out",
    "conflict": "lost its conflict key",
    "max_entries": "max_entries reached",
    "budget_dropped": "too few tokens left",
    "constant_budget_dropped": "too few tokens left for constants",
}
_NAMES = ("{{char}}", "{{user}}")
_NOT_RECALLED: Mapping[Recalled | None, str] = {
    "below_floor": "below the floor",
    "gated": "ranked, but gated",
    "outranked": "outranked",
}


class ShownEntries(NamedTuple):
    """The entries to show: those with an id, or all; by default the first 20 of each reason."""

    ids: tuple[str, ...] = ()
    every: bool = False


_USUAL = ShownEntries()


def selection_tables(
    books: Sequence[CompiledBook],
    request: SelectRequest,
    answer: SelectResponse,
    shown: ShownEntries = _USUAL,
) -> list[RenderableType]:
    """Return the printed selection: a summary, the selected entries, the others, and warnings.

    Args:
        books: all loaded books.
        request: the request.
        answer: its answer.
        shown: the entries to show.

    Raises:
        ValidationFailedError: no requested book has an entry to show.
    """
    requested = {ref.book_id for ref in request.books}
    names = {book.book_id: plain(book.name) for book in books if book.book_id in requested}
    titles = {
        entry.full_id: plain(entry.spec.title)
        for book in books
        if book.book_id in requested
        for entry in book.entries
        if entry.spec.title
    }
    view = _SelectionView(names, titles, request, answer, shown)
    if shown.ids:
        return [view.summary(), *view.named_entries()]
    parts: list[RenderableType] = [view.summary()]
    nameless = _count_nameless(answer)
    if nameless:
        parts.append(Text(f"{name_hint(nameless)}\n", style="yellow"))
    if answer.blocks:
        parts.append(view.selected())
    if any(not decision.selected for decision in answer.decisions):
        parts.append(view.left_out())
    elif request.explain != "full":
        parts.append(
            Text(
                f"explain is {request.explain!r}: reasons of the other entries were not requested."
            )
        )
    noted = [book for book in books if book.book_id in requested and book.diagnostics]
    if noted:
        parts.append(view.notes(noted))
    return parts


def _count_nameless(answer: SelectResponse) -> int:
    """Return how many entries need the name of the character or of the user."""
    decided = (each.id for each in answer.decisions if _lacks_name(each))
    warned = (each.entry for each in answer.warnings if each.code == MISSING)
    return len({*decided, *warned} - {None})


def _lacks_name(decision: Decision) -> bool:
    return decision.reason == "template_missing" and decision.detail in _NAMES


class _SelectionView:
    """Formats one selection."""

    def __init__(
        self,
        names: Mapping[str, str],
        titles: Mapping[str, str],
        request: SelectRequest,
        answer: SelectResponse,
        shown: ShownEntries,
    ) -> None:
        self._names = names
        self._titles = titles
        self._shown = shown
        self._messages = len(request.history)
        self._strategy = request.strategy
        self._answer = answer
        self._decisions = {decision.id: decision for decision in answer.decisions}

    def summary(self) -> Text:
        answer = self._answer
        books = ", ".join(self._names.values())
        entries = sum(item.entry_count for item in answer.snapshot)
        text = Text(books, style="bold")
        figures = (
            f"\n{len(answer.blocks)} of {entries} entries selected,"
            f" {answer.token_count} of {answer.token_budget} tokens ({plain(answer.tokenizer)}),"
            f" strategy {self._strategy}"
        )
        return text.append(f"{figures}\n", style="not bold")

    def selected(self) -> Table:
        table = new_table("Selected, in print order")
        table.add_column("Entry", overflow="fold", ratio=3)
        table.add_column("Place", overflow="fold", min_width=16)
        table.add_column("Tokens", justify="right", no_wrap=True)
        table.add_column("Why", overflow="fold", ratio=4)
        for block in self._answer.blocks:
            decision = self._decisions.get(block.id)
            cost = "" if decision is None else str(decision.cost)
            why = Text(block.reason, style="green")
            if decision is not None and (why_text := self._why(decision)):
                why.append(f": {why_text}", style="default")
            table.add_row(self._entry(block), Text(placed(block)), cost, why)
        return table

    def named_entries(self) -> list[Table]:
        """Return the decisions on the entries that were asked for."""
        found = [each for each in self._answer.decisions if each.entry_id in self._shown.ids]
        missing = [name for name in self._shown.ids if name not in {e.entry_id for e in found}]
        if missing:
            raise ValidationFailedError(f"No decision on {plain(missing[0])!r} was requested.")
        table = new_table("Decisions")
        table.add_column("Entry", overflow="fold", ratio=1)
        table.add_column("Reason", overflow="fold", min_width=23)
        table.add_column("Why", overflow="fold", ratio=2)
        for each in found:
            why = self._why(each) if each.selected else self._why_not(each)
            verdict = Text(each.reason, style="green" if each.selected else "yellow")
            table.add_row(
                Text(self._titled(each)), verdict, Text(why or _MEANING.get(each.reason, ""))
            )
        return [table]

    def _titled(self, decision: Decision) -> str:
        """Return the entry's id and title."""
        name = self._named(decision.entry_id, decision.book_id)
        title = self._titles.get(decision.id)
        return f"{name} {title}" if title else name

    def left_out(self) -> Table:
        out = (decision for decision in self._answer.decisions if not decision.selected)
        return reasons_table("Left out", out, _REASONS, _MEANING, self._listed)

    def notes(self, books: Iterable[CompiledBook]) -> Table:
        table = new_table("Book warnings")
        table.add_column("Entry", overflow="fold", ratio=1)
        table.add_column("Note", overflow="fold", ratio=2)
        for book in books:
            for entry_id, code, message in book.diagnostics[:MAX_ENTRIES_A_REASON]:
                name = self._named(entry_id, book.book_id)
                table.add_row(Text(name), Text(plain(f"{code}: {message}")))
            more = len(book.diagnostics) - MAX_ENTRIES_A_REASON
            if more > 0:
                table.add_row("", f"and {more} more")
        return table

    def _entry(self, block: Block) -> Text:
        text = Text(self._named(block.entry_id, block.book_id), style="bold")
        if block.title:
            text.append(f"\n{plain(block.title)}", style="not bold")
        return text

    def _named(self, entry_id: str, book_id: str) -> str:
        """Return the entry's id, followed by its book if there are several."""
        name = plain(entry_id)
        return f"{name} ({self._names[book_id]})" if len(self._names) > 1 else name

    def _by_id(self, full_id: str) -> str:
        """Return the name of an entry by its full id, `book_id:revision:entry_id`."""
        book_id, _, entry_id = full_id.split(":", 2)
        return self._named(entry_id, book_id)

    def _listed(self, group: Sequence[Decision]) -> Text:
        """Return the entries: one per line with details, the others in a row."""
        lines = []
        bare = []
        most = len(group) if self._shown.every else MAX_ENTRIES_A_REASON
        for decision in group[:most]:
            name = self._titled(decision)
            why = self._why_not(decision)
            if why:
                lines.append(f"{name}: {why}")
            else:
                bare.append(name)
        if len(group) > most:
            bare.append(f"and {len(group) - most} more (--all lists them)")
        return Text("\n".join([*lines, *([", ".join(bare)] if bare else [])]))

    def _why(self, decision: Decision) -> str:
        """Return the details of why an entry was selected; empty if the reason says it all."""
        match decision.reason:
            case "dependency" if decision.included_by is not None:
                return f"required by {self._by_id(decision.included_by)}"
            case "hybrid" if decision.hybrid_score is not None:
                details = [f"score {decision.hybrid_score:.4f}", *_ranked(decision.facts)]
                return ", ".join(details)
            case "required" | "constant":
                hit = self._hit(decision)
                return _MEANING[decision.reason] + (f"; also {hit}" if hit else "")
            case _:
                return self._hit(decision)

    def _why_not(self, decision: Decision) -> str:
        """Return the figures behind a rejection; empty if there are none."""
        facts = decision.facts
        details = []
        match decision.reason:
            case "probability" if facts.roll is not None:
                details.append(f"roll {facts.roll:.1f} >= {facts.threshold:g}")
            case "budget_dropped" | "constant_budget_dropped":
                details.append(f"needs {facts.tokens}, has {facts.room}")
            case "conflict" if facts.beaten_by is not None:
                details.append(f"beaten by {self._by_id(facts.beaten_by)}")
            case "not_triggered" if facts.key is not None:
                details.append(self._hit(decision))
        if facts.recall in _NOT_RECALLED:
            details.append(", ".join([_NOT_RECALLED[facts.recall], *_ranked(facts)]))
        if decision.detail is not None:
            of = "condition " if decision.reason == "condition_failed" else ""
            details.append(of + plain(decision.detail))
        return ", ".join(details)

    def _hit(self, decision: Decision) -> str:
        """Return the key that matched, and where; empty if none did."""
        facts = decision.facts
        if facts.key is None:
            return ""
        key = f"'{plain(facts.key)}'"
        if facts.woken_by is not None:
            return f"{key} in {self._by_id(facts.woken_by)}"
        if facts.message is None:
            return key
        if facts.message == self._messages:
            return f"{key} in the query"
        return f"{key} in message {facts.message + 1} of {self._messages}"


def _ranked(facts: Facts) -> list[str]:
    """Return the entry's ranks in the lists of recall."""
    ranks = []
    if facts.lexical_rank is not None:
        ranks.append(f"{facts.lexical_rank} by words")
    if facts.vector_rank is not None:
        ranks.append(f"{facts.vector_rank} by meaning")
    if facts.similarity is not None:
        ranks.append(f"similarity {facts.similarity:.3f}")
    if facts.evidence is not None:
        ranks.append(f"evidence {facts.evidence:.2f}")
    return ranks
