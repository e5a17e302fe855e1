"""Files in, models out."""

from lorewell.formats.native import load_book

__all__ = ["load_book"]
