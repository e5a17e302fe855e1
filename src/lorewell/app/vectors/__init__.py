"""Vectors: indexes and their builds, the vectors of queries, similarities of entries."""
