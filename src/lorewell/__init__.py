"""Lorewell decides which entries of a lorebook belong in a prompt, and says why.

>>> from lorewell import BookCreate, Entry, SelectRequest, compile_book, select
>>> tower = Entry(id="tower", content="灯塔由哑女看守。", keys=["灯塔"])
>>> book = compile_book(BookCreate(name="雾隐渡", entries=[tower]))
>>> response = select([book], SelectRequest(books=[book.ref], query="他走进灯塔大门"))
>>> response.blocks[0].content, response.decisions[0].reason
('灯塔由哑女看守。', 'keyword')
"""

from lorewell.engine.compile import compile_book
from lorewell.engine.compiled import CompiledBook, Diagnostic
from lorewell.engine.native import SnapshotLimits, VectorRanks, select
from lorewell.formats import ImportedBook, import_file, load_book
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
    SelectRequest,
    SelectResponse,
    SnapshotItem,
)

__all__ = [
    "Block",
    "BookCreate",
    "BookRef",
    "CompiledBook",
    "Condition",
    "Decision",
    "Diagnostic",
    "Entry",
    "Facts",
    "ImportReport",
    "ImportedBook",
    "Message",
    "PlacementCapabilities",
    "SelectRequest",
    "SelectResponse",
    "SnapshotItem",
    "SnapshotLimits",
    "VectorRanks",
    "compile_book",
    "import_file",
    "load_book",
    "select",
]
