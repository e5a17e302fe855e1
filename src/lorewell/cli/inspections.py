"""The summary of a file, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import orjson
from rich.text import Text

from lorewell.cli.failures import code_of, error_members
from lorewell.errors import LorewellError
from lorewell.formats import ImportedBook
from lorewell.formats.detect import FileKind
from lorewell.formats.inspection import Container, Inspection
from lorewell.formats.native import FORMAT as NATIVE
from lorewell.model.imports import ImportReport
from lorewell.model.plain import plain

CONTAINERS: Mapping[Container, str] = {
    Container.PNG: "PNG picture",
    Container.JPEG: "JPEG picture",
    Container.WEBP: "WEBP picture",
    Container.ZIP: "zip archive",
    Container.RISUM: "RisuAI module, packed",
    Container.JSON: "JSON",
    Container.MARKUP: "HTML or XML",
    Container.TEXT: "text",
    Container.EMPTY: "empty file",
    Container.UNKNOWN: "unknown content",
}
KINDS: Mapping[str, str] = {
    NATIVE: "a book in Lorewell's own format",
    FileKind.ST_WORLD: "SillyTavern world info",
    FileKind.CHARACTER_BOOK: "the lorebook of a character card",
    FileKind.LOREBOOK_V3: "a lorebook V3",
    FileKind.CARD_V1: "a character card V1",
    FileKind.CARD_V2: "a character card V2",
    FileKind.CARD_V3: "a character card V3",
    FileKind.NAI_LOREBOOK: "a NovelAI lorebook",
    FileKind.NAI_STORY: "a NovelAI story or scenario",
    FileKind.AGNAI_MEMORY: "an Agnai memory book",
    FileKind.AGNAI_CHARACTER: "an Agnai character",
    FileKind.RISU: "a RisuAI lorebook",
    FileKind.RISU_MODULE: "a RisuAI module",
    FileKind.KOBOLD: "a KoboldAI story or its world info",
    FileKind.AIDUNGEON_WI: "AI Dungeon world info",
    FileKind.JANITOR: "a JanitorAI lorebook",
    FileKind.PYGMALION: "a Pygmalion or TextGen character",
    FileKind.REPLICA: "a replica world book",
    FileKind.BACKYARD: "a Backyard character",
    FileKind.TAVERN_HELPER: "a world of TavernHelper",
}
_PICTURES = frozenset([Container.PNG])


def inspection_json(seen: Inspection) -> bytes:
    """Return the summary of a file as a JSON object."""
    members: dict[str, object] = {"container": seen.container, "kind": seen.kind}
    members["card_name"] = seen.card_name
    error: Mapping[str, object] | None = None
    if isinstance(seen.opened, LorewellError):
        members |= {"format": None, "book_name": None, "holds_book": False}
        members |= {
            "entry_count": 0,
            "enabled_count": 0,
            "runtime_blocked_count": 0,
            "warnings": {},
        }
        error = error_members(seen.opened)
    else:
        members |= _book_members(seen.opened)
    parts = [part._asdict() for part in seen.parts]
    source = {"name": seen.name, "sha256": seen.sha256, "size": seen.size_bytes}
    members |= {
        "parts": parts,
        "part_count": seen.part_count,
        "source_file": source,
        "error": error,
    }
    return orjson.dumps(members)


def _book_members(found: ImportedBook) -> dict[str, object]:
    report = found.report
    return {
        "format": report.format,
        "book_name": found.book.name if found.holds_book else None,
        "holds_book": found.holds_book,
        "entry_count": report.entry_count,
        "enabled_count": report.enabled_count,
        "runtime_blocked_count": report.runtime_blocked_count,
        "warnings": _warnings(report),
    }


def inspection_text(seen: Inspection) -> Text:
    """Return the summary of a file as text."""
    if isinstance(seen.opened, LorewellError):
        title, rest = seen.card_name or seen.name, _error_lines(seen.opened)
    else:
        title, rest = seen.card_name or seen.opened.book.name, _book_lines(seen.opened)
    text = Text(plain(title), style="bold")
    return text.append("\n" + "\n".join([*_file_lines(seen), *rest]), style="not bold")


def _file_lines(seen: Inspection) -> Iterator[str]:
    label = CONTAINERS[seen.container]
    if seen.kind is not None:
        label += f": {KINDS.get(seen.kind, seen.kind)}"
    if isinstance(seen.opened, ImportedBook):
        label += f" ({seen.opened.report.format})"
    yield label
    size = "" if seen.size_bytes is None else f", {seen.size_bytes} bytes"
    yield plain(seen.name) + size
    if seen.sha256 is not None:
        yield f"SHA-256 {seen.sha256}"
    if seen.part_count:
        yield _parts_line(seen)


def _parts_line(seen: Inspection) -> str:
    """Return the parts of the container, in one line."""
    if seen.container in _PICTURES:
        named = [f"{part.name} ({part.kind}, {part.size_bytes} bytes)" for part in seen.parts]
        label = "Text chunks"
    else:
        named = [f"{part.name} ({part.size_bytes} bytes)" for part in seen.parts]
        label = "Archive members"
    if seen.part_count > len(named):
        named.append(f"and {seen.part_count - len(named)} more")
    return plain(f"{label}: {', '.join(named)}")


def _book_lines(found: ImportedBook) -> Iterator[str]:
    report = found.report
    if found.holds_book:
        yield plain(f"Lorebook: {found.book.name}")
        counts = f"{report.entry_count} entries, {report.enabled_count} enabled"
        yield f"{counts}, {report.runtime_blocked_count} blocked"
    else:
        yield "No lorebook"
    warnings = ", ".join(f"{count} {code}" for code, count in _warnings(report).items())
    yield f"Warnings: {plain(warnings) or 'none'}"


def _error_lines(error: LorewellError) -> Iterator[str]:
    yield f"Not readable as a book: {code_of(error)}"
    yield plain(str(error))


def _warnings(report: ImportReport) -> dict[str, int]:
    """Return the number of warnings of each code, most frequent first."""
    return dict(Counter(warning.code for warning in report.warnings).most_common())
