"""Keyword matching shared by all policies: folding, whole words, one automaton pass."""
