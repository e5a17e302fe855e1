"""Converts entries between SillyTavern's form and ours, and finds content that we can't run."""

from lorewell.engine.sillytavern.entry.dynamic import DynamicSign, lowered_alike
from lorewell.engine.sillytavern.entry.fields import ReadEntry, read_entry
from lorewell.engine.sillytavern.entry.reading import ImportedEntry, import_entry
from lorewell.engine.sillytavern.entry.table import Form, form_of
from lorewell.engine.sillytavern.entry.values import Repair
from lorewell.engine.sillytavern.entry.view import overlaid, sillytavern_view

__all__ = [
    "DynamicSign",
    "Form",
    "ImportedEntry",
    "ReadEntry",
    "Repair",
    "form_of",
    "import_entry",
    "lowered_alike",
    "overlaid",
    "read_entry",
    "sillytavern_view",
]
