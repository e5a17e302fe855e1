"""Exports books to native JSON and the formats of other programs."""

from lorewell.formats.export.book import EXPORTS, Exported, export_book
from lorewell.formats.export.card import put_into_card, upgrades

__all__ = ["EXPORTS", "Exported", "export_book", "put_into_card", "upgrades"]
