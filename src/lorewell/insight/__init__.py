"""Analysis beyond a selection: lint a book, replay a chat."""

from lorewell.insight.lint import diagnostics, lint

__all__ = ["diagnostics", "lint"]
