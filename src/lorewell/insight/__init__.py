"""Analysis beyond a selection: lint a book, replay a chat."""

from lorewell.insight.lint import lint

__all__ = ["lint"]
