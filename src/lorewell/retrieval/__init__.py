"""Pure ranking: tokens of running text, BM25, rank fusion (spec/native.md §9)."""
