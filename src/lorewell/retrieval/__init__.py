"""Ranking without I/O: words of a text, BM25, rank fusion (docs/rules/native.md §9)."""
