"""Pure ranking: tokens of running text, BM25, rank fusion (docs/rules/native.md §9)."""
