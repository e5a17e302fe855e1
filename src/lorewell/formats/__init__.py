"""File formats: reads and writes lorebooks, character cards and chats."""

from lorewell.formats.foreign import import_file, import_worldbook
from lorewell.formats.imported import ImportedBook
from lorewell.formats.loading import load_book, open_book
from lorewell.formats.worlds import load_world

__all__ = [
    "ImportedBook",
    "import_file",
    "import_worldbook",
    "load_book",
    "load_world",
    "open_book",
]
