"""What a person wants to know of a book or a selection beyond the answer itself."""

from lorewell.insight.lint import lint

__all__ = ["lint"]
