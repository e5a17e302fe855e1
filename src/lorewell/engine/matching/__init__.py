"""Keyword matching that all policies share: folding, whole words, one automaton pass."""
