"""Lorewell selects the entries of a lorebook that belong in a prompt, and explains each choice.

>>> from lorewell import BookCreate, Entry, SelectRequest, compile_book, select
>>> tower = Entry(id="tower", content="灯塔由哑女看守。", keys=["灯塔"])
>>> book = compile_book(BookCreate(name="雾隐渡", entries=[tower]))
>>> response = select([book], SelectRequest(books=[book.ref], query="他走进灯塔大门"))
>>> response.blocks[0].content, response.decisions[0].reason
('灯塔由哑女看守。', 'keyword')
"""

from lorewell.engine.native import SnapshotLimits, VectorScores, select
from lorewell.engine.native.compile import compile_book
from lorewell.engine.native.compiled import CompiledBook, Diagnostic
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.turns import activate
from lorewell.engine.steps import Steps
from lorewell.formats import ImportedBook, import_file, load_book, load_world
from lorewell.insight.explain import explain
from lorewell.insight.lint import lint
from lorewell.model import (
    Block,
    BookCreate,
    BookRef,
    Condition,
    Decision,
    Entry,
    Facts,
    ImportReport,
    Message,
    PlacementCapabilities,
    Scene,
    SelectRequest,
    SelectResponse,
    SnapshotItem,
)
from lorewell.model.activate import (
    AttachedBook,
    AuthorsNote,
    ChatLine,
    ForcedEntry,
    InjectedPrompt,
    Mending,
    ScanTexts,
    SelectedCharacter,
    SillyTavernRequest,
    SillyTavernSettings,
)
from lorewell.model.activated import (
    ActivatedEntry,
    BudgetFigures,
    DepthGroup,
    Event,
    ExampleEntry,
    Hit,
    Loop,
    SillyTavernResponse,
    Verdict,
)
from lorewell.model.explained import EntryName, Explanation
from lorewell.model.lint import Finding, LintFix
from lorewell.model.macro_values import MacroValues

__all__ = [
    "ActivatedEntry",
    "Attached",
    "AttachedBook",
    "AuthorsNote",
    "Block",
    "BookCreate",
    "BookRef",
    "BudgetFigures",
    "ChatLine",
    "CompiledBook",
    "Condition",
    "Decision",
    "DepthGroup",
    "Diagnostic",
    "Entry",
    "EntryName",
    "Event",
    "ExampleEntry",
    "Explanation",
    "Facts",
    "Finding",
    "ForcedEntry",
    "Hit",
    "ImportReport",
    "ImportedBook",
    "InjectedPrompt",
    "Library",
    "LintFix",
    "Loop",
    "MacroValues",
    "Mending",
    "Message",
    "PlacementCapabilities",
    "ScanTexts",
    "Scene",
    "SelectRequest",
    "SelectResponse",
    "SelectedCharacter",
    "SillyTavernRequest",
    "SillyTavernResponse",
    "SillyTavernSettings",
    "SnapshotItem",
    "SnapshotLimits",
    "Steps",
    "VectorScores",
    "Verdict",
    "activate",
    "compile_book",
    "explain",
    "import_file",
    "lint",
    "load_book",
    "load_world",
    "select",
]
