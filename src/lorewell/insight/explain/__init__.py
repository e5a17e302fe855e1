"""Explains one entry in one turn: its gates, near misses, and the changes that flip it."""

from lorewell.insight.explain.native import explain_context

__all__ = ["explain_context"]
