"""SillyTavern's side of an entry: reading it, showing it, and what in it we can't run."""

from lorewell.engine.sillytavern.dynamic import Sign, lowered_alike
from lorewell.engine.sillytavern.fields import ReadEntry, read_entry
from lorewell.engine.sillytavern.reading import Imported, import_entry
from lorewell.engine.sillytavern.table import Form, form_of
from lorewell.engine.sillytavern.values import Repair
from lorewell.engine.sillytavern.view import overlaid, sillytavern_view

__all__ = [
    "Form",
    "Imported",
    "ReadEntry",
    "Repair",
    "Sign",
    "form_of",
    "import_entry",
    "lowered_alike",
    "overlaid",
    "read_entry",
    "sillytavern_view",
]
